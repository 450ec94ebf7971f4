# SPDX-License-Identifier: Apache-2.0
"""Find the real flag or value that somebody may have meant, by spelling and by the meaning of the name's parts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema, Flag

LONGEST = 80  # characters; a longer name is no misspelling of a real one
ENOUGH = 0.55
_PARTS = re.compile(r"[a-z]+|\d+")
_EMPTY = frozenset({"the", "of", "to", "for", "use", "enable", "disable", "no", "set", "with"})


def nearest_flag(name: str, schema: EngineSchema, words: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the real flag closest to a name, None when none is close."""
    wanted = name.lower().replace("_", "-")
    if len(wanted) > LONGEST or not wanted.strip("-"):
        return None
    own = _meaning(wanted, words)
    matcher = difflib.SequenceMatcher(None, b=wanted, autojunk=False)  # it caches what it computes for b
    best, best_score = None, ENOUGH
    for flag in schema.flags:
        for real in flag.names:
            if real.startswith("--"):
                plain = real.lower().replace("_", "-")
                matcher.set_seq1(plain)
                score = _score(matcher, own, _meaning(plain, words), best_score)
                if score > best_score:
                    best, best_score = real, score
    return best


def _score(matcher: difflib.SequenceMatcher[str], own: frozenset[str], meaning: frozenset[str], enough: float) -> float:
    """Return a similarity from 0 to 1. Names with the same parts in the engines' vocabulary score 1."""
    if own == meaning:
        return 1.0
    shared = len(own & meaning)
    overlap = shared / len(own | meaning) if shared else 0.0
    for quick in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio):  # each is at most the one before
        spelling = quick()
        score = max(0.5 * spelling + 0.5 * overlap, spelling - 0.15, overlap - 0.05)
        if score <= enough:
            break
    return score


def _meaning(name: str, words: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Return the parts of a name, each in the engines' own vocabulary."""
    parts: set[str] = set()
    for part in _PARTS.findall(name):
        parts.update(words.get(part, (part,)))
    return frozenset(parts - _EMPTY) or frozenset(parts)


def full_names(name: str, schema: EngineSchema) -> list[str]:
    """Return the flags that start with a name, shortest first: what an abbreviation may stand for."""
    if not name.startswith("--") or len(name) < 3 or len(name) > LONGEST:
        return []
    return sorted((real for real in schema.by_name if real.startswith(name)), key=lambda real: (len(real), real))


def nearest_word(word: str, known: Iterable[str]) -> str | None:
    """Return the closest of the values a flag takes."""
    listed = list(known)
    folded = {re.sub(r"[^a-z0-9]", "", item.lower()): item for item in reversed(listed)}
    same = folded.get(re.sub(r"[^a-z0-9]", "", word[:LONGEST].lower()))
    if same is not None:
        return same
    close = difflib.get_close_matches(word[:LONGEST], listed, n=1, cutoff=0.55)
    return close[0] if close else None


def nearest_key(key: str, flag: Flag) -> str | None:
    return nearest_word(key, flag.keys or ())
