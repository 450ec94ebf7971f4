# SPDX-License-Identifier: Apache-2.0
"""The names of an inventory: which groups and variables are misspelt ones of ours, and not an owner's own."""

from __future__ import annotations

from collections.abc import Iterable

GROUPS = ("cluster", "head", "workers")
"""The groups that playbooks run on."""


def one_edit(one: str, other: str) -> bool:
    """Whether a letter that is added, left out or replaced, or two that changed places, make one name the other."""
    short, long = sorted((one, other), key=len)
    if len(long) - len(short) > 1 or one == other:
        return False
    start = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    swapped = short[start + 1 : start + 2] + short[start]
    return short[start + 1 :] == long[start + 1 :] or swapped + short[start + 2 :] == long[start:]


def nearest_group(group: str, names: Iterable[str]) -> str | None:
    """The group that may have been meant to be this one."""
    return next((name for name in names if one_edit(name.lower(), group) or name.lower() == group != name), None)
