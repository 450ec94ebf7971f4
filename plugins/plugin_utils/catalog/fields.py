# SPDX-License-Identifier: Apache-2.0
"""How the fields of a catalog entry are described, and those every entry has."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """What a field of an entry holds."""

    types: tuple[type, ...]
    required: bool = True
    fields: Mapping[str, Field] | None = None
    items: Mapping[str, Field] | None = None
    """The fields of each item, for a list of mappings."""

    @property
    def words(self) -> str:
        """The types as an operator writes them."""
        return " or ".join(_WORDS[one] for one in self.types)


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
}
