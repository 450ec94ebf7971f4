# SPDX-License-Identifier: Apache-2.0
"""How the fields of a catalog entry are described, and those every entry has."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """What a number may be: from `least`, or more than `above`, up to `most`."""

    least: float | None = None
    most: float | None = None
    above: float | None = None

    def __contains__(self, number: float) -> bool:
        """Written so that NaN, of which every comparison is false, is in no range."""
        return (
            (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
        )

    @property
    def words(self) -> str:
        """As an operator reads it after "a number"."""
        bounds = {"of at least": self.least, "above": self.above, "at most": self.most}
        return " and ".join(f"{word} {bound:.15g}" for word, bound in bounds.items() if bound is not None)


@dataclass(frozen=True)
class Field:
    """What a field of an entry holds."""

    types: tuple[type, ...]
    required: bool = True
    fields: Mapping[str, Field] | None = None
    items: Mapping[str, Field] | None = None
    """The fields of each item, for a list of mappings."""
    values: Field | None = None
    """What each value is, for a mapping whose keys are free."""
    range: Range | None = None
    """Of a number."""
    choices: tuple[str, ...] = ()
    """Of a text, where only some make sense."""

    @property
    def words(self) -> str:
        """The types as an operator writes them, numbers with their range."""
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
