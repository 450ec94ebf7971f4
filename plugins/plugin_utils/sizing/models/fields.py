# SPDX-License-Identifier: Apache-2.0
"""Read the fields of an untrusted config.json: every value is checked, and all problems are reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LIMITS = {
    "layers": 4096,
    "width": 1 << 22,
    "heads": 1 << 16,
    "vocab": 1 << 26,
    "experts": 1 << 16,
    "tokens": 1 << 40,
}
"""Larger than any model, small enough that no arithmetic and no loop below can run away."""


class Fields:
    """A mapping whose values are read by name; missing and invalid ones are collected."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.missing: list[str] = []
        self.wrong: list[str] = []

    def has(self, *keys: str) -> bool:
        return any(self.values.get(key) is not None for key in keys)

    def number(self, *keys: str, most: str = "width", least: int = 1) -> int | None:
        """Return the first of these keys that is present, as a whole number within bounds."""
        for key in keys:
            value = self.values.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LIMITS[most]:
                self.wrong.append(f"{key} is {shown(value)}, expected a whole number from {least} to {LIMITS[most]}")
                return None
            return value
        return None

    def required(self, *keys: str, most: str = "width") -> int:
        """Like `number`, but a missing key is recorded, and 1 returned so that reading can go on and find the rest."""
        before = len(self.wrong)
        value = self.number(*keys, most=most)
        if value is None:
            if len(self.wrong) == before:
                self.missing.append(" or ".join(keys))
            return 1
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong.append(f"{key} is {shown(value)}, expected true or false")
            return default
        return value

    def numbers(self, key: str, *, least: int = 0, most: str = "width", length: int | None = None) -> list[int] | None:
        """Return a list of whole numbers within bounds, not longer than any model has layers."""
        value = self.values.get(key)
        if value is None:
            return None
        if (
            not isinstance(value, Sequence)
            or isinstance(value, str)
            or len(value) > LIMITS["layers"]
            or any(
                isinstance(one, bool) or not isinstance(one, int) or not least <= one <= LIMITS[most] for one in value
            )
        ):
            self.wrong.append(f"{key} is {shown(value)}, expected a list of whole numbers from {least}")
            return None
        if length is not None and len(value) < length:
            self.wrong.append(f"{key} has {len(value)} items, expected one for each of {length} layers")
            return None
        return list(value)

    def words(self, key: str) -> list[str]:
        """Return a list of texts; other items are dropped, since such lists only name exceptions."""
        value = self.values.get(key)
        if not isinstance(value, Sequence) or isinstance(value, str):
            return []
        return [one for one in value[:65536] if isinstance(one, str)]

    def word(self, key: str, default: str = "") -> str:
        value = self.values.get(key)
        return value if isinstance(value, str) else default


def plain(text: str, most: int = 60) -> str:
    """Sanitise foreign text for a message: shorten it, and escape characters that are not printable."""
    cut = text if len(text) <= most else text[: most - 3] + "..."
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in cut)


def shown(value: object) -> str:
    """Format a value so that an operator can read it, however long it is."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**18:
        return "a number of more than 18 digits"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"a list of {len(value)} items"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
