# SPDX-License-Identifier: Apache-2.0
"""The firewall's kind of state: whether the kernel has the rules of a file.

    rulesets     {"/etc/firstlight/firewall.nft": {"loaded": True}}

Everything here is pure. The rules in force are compared with the file as loaded in a temporary network namespace: both
listings come from the same kernel and the same program, so only real changes differ, and every rule that was added,
removed or moved by hand is noticed. A digest embedded in the rules would not notice that.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ..state.vocabulary import UNKNOWN, Difference, difference, register

_MOST = 6
"""Number of rules to list per table; with more changes than this, a sample is enough."""


def _differences(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """Return a difference for each file whose rules are not those in the kernel."""
    found = []
    for path, want in desired.items():
        have = observed.get(path) or {"loaded": UNKNOWN}
        wanted = bool(want.get("loaded"))
        seen = {"loaded": have.get("loaded")}
        seen |= {key: have[key] for key in ("missing", "added", "error") if wanted and have.get(key)}
        if seen != {"loaded": wanted}:
            found.append(difference("ruleset", path, {"loaded": wanted}, seen))
    return found


def compare_listings(wanted: str, live: str) -> tuple[list[str], list[str]]:
    """Return the rules that the table lacks and the extra ones, in order; a rule that was moved is in both."""
    one, other = _rules(wanted), _rules(live)
    missing, added = [], []
    for word, start, end, first, last in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if word != "equal":
            missing += one[start:end]
            added += other[first:last]
    return missing, added


def _rules(listing: str) -> list[str]:
    """Return each line with its chain: the same rule in another chain is a different rule."""
    found, place = [], ""
    for line in (raw.strip() for raw in listing.splitlines()):
        if line.endswith("{"):
            place = line.removesuffix("{").strip()
            found.append(place)
        elif line and line != "}":
            found.append(f"{place}: {line}")
    return found


def _sentence(key: str, expected: Any, observed: Any) -> str:
    if not expected["loaded"]:
        have = "in force" if observed["loaded"] is True else UNKNOWN
        return f"the rules of {key} are {have}, expected none"
    if observed.get("error"):
        return f"the rules of {key} cannot be compared ({observed['error']}), expected them in force"
    if observed["loaded"] is not True:
        have = "not in force" if observed["loaded"] is False else UNKNOWN
        return f"the rules of {key} are {have}, expected them in force"
    parts = [
        f"{word} {_listed(observed[key])}"
        for key, word in (("missing", "without"), ("added", "with"))
        if observed.get(key)
    ]
    return f"the rules in force are not those of {key} ({'; '.join(parts)}), expected exactly these"


def _listed(rules: list[str]) -> str:
    more = len(rules) - _MOST
    return ", ".join(f"`{rule}`" for rule in rules[:_MOST]) + (f" and {more} more" if more > 0 else "")


register(named={"rulesets": _differences}, sentences={"ruleset": _sentence})
