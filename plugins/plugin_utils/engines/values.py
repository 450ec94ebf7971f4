# SPDX-License-Identifier: Apache-2.0
"""Check the values of an engine's flags, and format values for messages without secrets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.nearest import nearest_key, nearest_word
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.ranges import Meaningful
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import Flag

LONGEST_NUMBER = 40
LONGEST_JSON = 200_000
SIZE = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]{1,2})", re.ASCII)
SUFFIXED = re.compile(r'("(?:[^"\\]|\\.)*")|\b(\d+(?:\.\d+)?)[kKmMgGtT]\b')
SECRET = re.compile(r"key|token(?!iz)|passw|passphrase|secret|credential|bearer|authorization", re.IGNORECASE)
"""Matches names that may hold a secret; a tokenizer holds none."""
TOLD_SECRET = re.compile(
    rf"((?:{SECRET.pattern})[\w.-]*[\"'\\]*[\s=:,][\s=:,\"'\\]*)[^\s=:,\"'\\].*", re.IGNORECASE | re.DOTALL
)
"""Matches such a name with what follows it, in one word: `--api-key=x`, `api_key: x`, `{"token": "x"}`."""
LOGIN = re.compile(r"(://)[^/\s]*@")
Problem = tuple[str, str | None]
"""The problem of a value, and the nearest valid value."""


def show(word: Any, longest: int = 80) -> str:
    """Format a word for a message: short, without control characters, and without possible secrets."""
    start = TOLD_SECRET.sub(r"\1...", LOGIN.sub(r"\1...@", str(word)[: longest + 1]))
    text = "".join(character if character.isprintable() else "?" for character in start)
    return text[:longest] + "..." if len(text) > longest else text


def listed(words: Iterable[Any], most: int = 14) -> str:
    """List words for a message; of many, only the first."""
    all_words = [str(word) for word in words]
    more = f" and {len(all_words) - most} more" if len(all_words) > most else ""
    return ", ".join(all_words[:most]) + more


def check_value(flag: Flag, word: str, *, plugin: bool = False) -> Problem | None:
    """Return the problem of a value, None if valid. A plugin may accept values that the engine does not know."""
    if "none" in flag.also and word in {"", "None"}:
        return None
    if "auto" in flag.also and word.lower() == "auto":
        return None
    match flag.type:
        case "enum":
            return _check_choice(flag, word)
        case "int":
            return None if _is_number(word, int) else (f"takes a whole number, not {show(word)!r}", None)
        case "float":
            return None if _is_number(word, float) else (f"takes a number, not {show(word)!r}", None)
        case "size":
            return _check_size(flag, word)
        case "json":
            return _check_json(flag, word)
        case "bool":
            return f"is a switch and takes no value, found {show(word)!r}", flag.name
    return None if plugin else _check_known(flag, word)


def _is_number(word: str, kind: type[int | float]) -> bool:
    try:
        return len(word) <= LONGEST_NUMBER and math.isfinite(kind(word))
    except (ValueError, OverflowError):
        return False


def read_size(flag: Flag, word: str) -> int | None:
    """Return the number a size means to its engine, None if invalid. The value of a suffix such as M varies."""
    text = word.strip()
    if _is_number(text, int):
        return int(text)
    match = SIZE.fullmatch(text) if len(text) <= LONGEST_NUMBER else None
    worth = (flag.units or {}).get(match[2]) if match else None
    if match is None or worth is None or ("." in match[1] and match[2] not in (flag.decimals or ())):
        return None
    return int(float(match[1]) * worth) if "." in match[1] else int(match[1]) * worth


def _check_size(flag: Flag, word: str) -> Problem | None:
    if read_size(flag, word) is not None:
        return None
    units = ", ".join(f"1{unit} = {worth}" for unit, worth in (flag.units or {}).items())
    return f"takes a whole number, also with a unit ({units}), not {show(word)!r}", None


def check_range(flag: Flag, word: str, meaningful: Meaningful) -> Problem | None:
    """Return a problem if a flag's number is meaningless. Values other than numbers are not checked here."""
    number = float(word) if flag.type == "float" and _is_number(word, float) else read_size(flag, word)
    if number is None or number in meaningful:
        return None
    kind = "a number" if flag.type == "float" else "a whole number"
    return f"takes {kind} {meaningful.words}, not {show(word)!r}", None


def _check_choice(flag: Flag, word: str) -> Problem | None:
    choices = flag.choices or ()
    if any(isinstance(choice, int) for choice in choices):
        if _is_number(word, int) and int(word) in choices:
            return None
    elif word in choices or ("fold" in flag.also and word.lower().replace("-", "_") in choices):
        return None
    words = [str(choice) for choice in choices]
    return f"takes one of {listed(words)}, not {show(word)!r}", nearest_word(word, words)


def _check_known(flag: Flag, word: str) -> Problem | None:
    """Refuse values that the engine's parser accepts and the engine refuses later, after minutes of loading."""
    if flag.values is None or word in flag.values or ("upper" in flag.also and word.upper() in flag.values):
        return None
    if word == flag.default or "." in word or ":" in word:
        return None  # the default, or the path of a custom class
    return (
        f"parses, but the engine does not know {show(word)!r}; it knows {listed(flag.values)}",
        nearest_word(word, flag.values),
    )


def _check_json(flag: Flag, word: str) -> Problem | None:
    if "text" in flag.also and not re.fullmatch(r"\s*\{.*\}\s*", word, re.DOTALL):
        return None
    if len(word) > LONGEST_JSON:
        return f"has {len(word)} characters of JSON, more than {LONGEST_JSON}", None
    text = SUFFIXED.sub(lambda match: match[1] or match[2], word) if "suffix" in flag.also else word
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"takes JSON; {show(word, 60)!r} is not JSON ({show(error)})", None
    if flag.keys is None:
        return None
    if not isinstance(value, dict):
        return f"takes a JSON object, not {show(word)!r}", None
    for key in value:
        if (problem := check_key(flag, key)) is not None:
            return problem
    return None


def check_key(flag: Flag, key: str) -> Problem | None:
    """Return a problem if the JSON of a flag may not have a key."""
    if flag.keys is None or key in flag.keys:
        return None
    return f"has no key {show(key)!r}; its keys are {listed(flag.keys)}", nearest_key(key, flag)
