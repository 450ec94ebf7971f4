# SPDX-License-Identifier: Apache-2.0
"""Read and validate the plain values of firstlight_serving."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import check_keys

SPECULATIVE_KEYS = ("method", "tokens")


def read_count(text: str) -> int:
    """Parse a number that may end in k, m or g (1,000 and so on) or in K, M or G (1,024 and so on), as engines take it.

    Raises ValueError for any other text.
    """
    power = "kmg".find(text[-1:].lower()) + 1 if text else 0
    if not power:
        return int(text)
    try:
        return int(float(text[:-1]) * (1000 if text[-1].islower() else 1024) ** power)
    except OverflowError as error:
        raise ValueError(str(error)) from error


class Numbers:
    """Reads the plain values of a mapping, and refuses values of another type."""

    def __init__(self, serving: Mapping[str, Any], errors: PlanErrors) -> None:
        self._serving = serving
        self._errors = errors

    def optional(self, key: str, span: tuple[int, int]) -> int | None:
        """Return a whole number, or None if it is not set or refused."""
        value = self._serving.get(key)
        least, most = span
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self._refuse(key, value, f"a whole number from {least} to {most}")
            return None
        return value

    def count(self, key: str, span: tuple[int, int]) -> int | None:
        """Like `optional`, but also accepts a suffix for thousands, as 128k."""
        value = self._serving.get(key)
        if isinstance(value, str) and value[-1:].isalpha():
            with contextlib.suppress(ValueError):
                number, (least, most) = read_count(value), span
                if least <= number <= most:
                    return number
            whole = f"a whole number from {span[0]} to {span[1]}"
            self._refuse(key, value, whole, f"write firstlight_serving.{key} as 32768, 128k or 128K")
            return None
        return self.optional(key, span)

    def whole(self, key: str, default: int, span: tuple[int, int]) -> int:
        """Return a whole number."""
        value = self.optional(key, span)
        return default if value is None else value

    def rate(self, key: str, most: float) -> float | None:
        """Return a number above 0, or None."""
        value = self._serving.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
            self._refuse(key, value, f"a number above 0 and at most {most:g}")
            return None
        return float(value)

    def word(self, key: str) -> str | None:
        """Return one word, or None."""
        value = self._serving.get(key)
        if value is None or (isinstance(value, str) and value.split() == [value]):
            return value
        self._refuse(key, value, "one word")
        return None

    def truth(self, key: str) -> bool | None:
        """Return true or false, or None."""
        value = self._serving.get(key)
        if value is None or isinstance(value, bool):
            return value
        self._refuse(key, value, "true or false")
        return None

    def _refuse(self, key: str, value: object, expected: str, remedy: str = "") -> None:
        self._errors.add(
            "serving.value",
            f"firstlight_serving.{key} is {value!r}",
            f"{key} is {expected}",
            remedy or f"correct firstlight_serving.{key}, without quotes",
        )


def read_speculative(serving: Mapping[str, Any], errors: PlanErrors) -> dict[str, Any] | None:
    """Return {method, tokens}, or None."""
    value = serving.get("speculative")
    if value is None:
        return None
    where = "firstlight_serving.speculative"
    if not isinstance(value, Mapping):
        errors.add(
            "intent.type",
            f"{where} is {value!r}",
            f"{where} is a mapping with the keys {', '.join(SPECULATIVE_KEYS)}",
            "write it as {method: mtp, tokens: 2}",
        )
        return None
    check_keys(value, SPECULATIVE_KEYS, where, errors)
    method, tokens = value.get("method"), value.get("tokens")
    if not isinstance(method, str) or isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 < tokens <= 64:
        errors.add(
            "serving.value",
            f"{where} has the method {method!r} and {tokens!r} tokens",
            "speculative decoding has a method and a number of draft tokens, 1 to 64",
            "write it as {method: mtp, tokens: 2}",
        )
        return None
    return {"method": method, "tokens": tokens}


def read_engine_settings(serving: Mapping[str, Any], errors: PlanErrors) -> dict[str, Any]:
    """Read keys of the engine's settings file; its schema decides later whether the engine knows them."""
    value = serving.get("engine_settings")
    if value is None:
        return {}
    where = "firstlight_serving.engine_settings"
    if not isinstance(value, Mapping):
        errors.add(
            "intent.type",
            f"{where} is {value!r}",
            f"{where} is a mapping, like the engine's settings file",
            "write it as {cuda_graph_config: {enable_padding: true}}",
        )
        return {}
    strange = _strange(value, where)
    if strange:
        errors.add(
            "intent.type",
            f"{strange} is of a type that a settings file cannot contain",
            "a settings file contains text, numbers, true, false, null, lists and mappings",
            "put it in quotes, if it is text",
        )
        return {}
    return dict(value)


def _strange(value: Any, where: str) -> str:
    """Return the path of a value that is not plain data, such as a date (2026-11-16 in YAML); empty if none."""
    if isinstance(value, Mapping):
        return next((found for key, one in value.items() if (found := _strange(one, f"{where}.{key}"))), "")
    if isinstance(value, (list, tuple)):
        return next((found for one in value if (found := _strange(one, where))), "")
    return "" if value is None or isinstance(value, (str, int, float, bool)) else where
