# SPDX-License-Identifier: Apache-2.0
"""Check whether a value of an engine's settings file is of a kind, and describe kinds for messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.values import listed

_KINDS = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "null": "null"}


def is_inner(kind: Any, value: Any) -> bool:
    """Whether a value has the outer form of a kind, so that any problem must be inside it."""
    if not isinstance(kind, dict):
        return False
    if "list" in kind:
        return isinstance(value, (list, tuple))
    return bool({"map", "object", "chosen_by"} & set(kind)) and isinstance(value, Mapping)


def is_word(value: str, words: list[str], *, fold: bool) -> bool:
    """Whether a text is one of the words, ignoring case where the engine does."""
    return value in words or (fold and value.upper() in words)


def is_plain(kind: str, value: Any) -> bool:
    """Whether a value is of a kind, more strictly than the engine: "1" and 1.0 are no integers here."""
    match kind:
        case "any":
            return True
        case "null":
            return value is None
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "str":
            return isinstance(value, str)
    return isinstance(value, Mapping)


def words_of(kinds: Iterable[Any]) -> str:
    """Describe kinds as a phrase that follows "takes"."""
    found = []
    for kind in kinds:
        match kind:
            case str():
                found.append(_KINDS.get(kind, "a mapping"))
            case {"words": words}:
                found.append(f"one of {listed(words)}")
            case {"list": inner}:
                found.append(f"a list in which each item is {words_of(inner)}")
            case _:
                found.append("a mapping")
    return " or ".join(dict.fromkeys(found))
