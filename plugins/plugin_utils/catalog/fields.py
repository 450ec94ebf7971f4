# SPDX-License-Identifier: Apache-2.0
"""Descriptions of the fields of a catalog entry, and the fields common to all entries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """The valid range of a number: at least `least`, or above `above`, and at most `most`."""

    least: float | None = None
    most: float | None = None
    above: float | None = None

    def __contains__(self, number: float) -> bool:
        """Return whether a number is in the range; written so that NaN, which fails every comparison, never is."""
        return (
            (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
        )

    @property
    def words(self) -> str:
        """The range as text that follows "a number"."""
        bounds = {"of at least": self.least, "above": self.above, "at most": self.most}
        return " and ".join(f"{word} {bound:.15g}" for word, bound in bounds.items() if bound is not None)


@dataclass(frozen=True)
class Field:
    """What a field of an entry may hold."""

    types: tuple[type, ...]
    required: bool = True
    fields: Mapping[str, Field] | None = None
    items: Mapping[str, Field] | None = None
    """The fields of each item, for a list of mappings."""
    values: Field | None = None
    """The type of each value, for a mapping with arbitrary keys."""
    range: Range | None = None
    """The valid range, for a number."""
    choices: tuple[str, ...] = ()
    """The valid values, for a text; empty if any is."""

    @property
    def words(self) -> str:
        """The expected types as text, numbers with their range."""
        named = [one for one in self.types if one is not int or float not in self.types]
        return " or ".join(self._choices(one) or _WORDS[one] + self._bounds(one) for one in named)

    def _choices(self, kind: type) -> str:
        return " or ".join(self.choices) if kind is str else ""

    def _bounds(self, kind: type) -> str:
        return f" {self.range.words}" if self.range is not None and kind in (int, float) else ""


NULL = type(None)
_WORDS: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a mapping",
    list: "a list",
    dt.date: "a date",
    NULL: "null",
}
COMMON = {
    "name": Field((str,)),
    "source": Field((str,)),
    "date": Field((str, dt.date)),
    "description": Field((str,), required=False),
    "note": Field((str,), required=False),
    "unverified": Field((dict,), required=False, values=Field((str,))),
}
