# SPDX-License-Identifier: Apache-2.0
"""The kind of state that only the firewall speaks of: whether the kernel has the rules of a file.

    rulesets     {"/etc/firstlight/firewall.nft": {"loaded": True}}

Everything here is pure. What the kernel has is compared with what it makes of the file in a network namespace of its
own: both are listings of the same kernel by the same program, so that nothing but a real change differs, and no rule
that was added, removed or moved by hand goes unseen. A digest that the rules carry themselves would not notice that.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ..state.vocabulary import UNKNOWN, Difference, difference, register

_MOST = 6
"""Rules that are told of one table; who changed more sees enough of it."""


def _differences(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """Files whose rules are not what the kernel has."""
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
    """Rules that the table lacks, and those that it has besides, in their order; a rule that was moved is both."""
    one, other = _rules(wanted), _rules(live)
    missing, added = [], []
    for word, start, end, first, last in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if word != "equal":
            missing += one[start:end]
            added += other[first:last]
    return missing, added


def _rules(listing: str) -> list[str]:
    """Each line with the chain that it is in: the same rule elsewhere is another one."""
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
