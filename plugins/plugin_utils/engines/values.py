# SPDX-License-Identifier: Apache-2.0
"""Whether a flag of an engine takes a word as its value."""

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
"""In the name of what may hold a secret; a tokenizer holds none."""
TOLD_SECRET = re.compile(
    rf"((?:{SECRET.pattern})[\w.-]*[\"'\\]*[\s=:,][\s=:,\"'\\]*)[^\s=:,\"'\\].*", re.IGNORECASE | re.DOTALL
)
"""Such a name with what follows it, in one word: `--api-key=x`, `api_key: x`, `{"token": "x"}`."""
LOGIN = re.compile(r"(://)[^/\s]*@")
Problem = tuple[str, str | None]
"""What is wrong with a value, and the nearest value that is right."""


def show(word: Any, longest: int = 80) -> str:
    """A word for a message: short, without what a terminal would act on, and without what may be a secret."""
    start = TOLD_SECRET.sub(r"\1...", LOGIN.sub(r"\1...@", str(word)[: longest + 1]))
    text = "".join(character if character.isprintable() else "?" for character in start)
    return text[:longest] + "..." if len(text) > longest else text


def listed(words: Iterable[Any], most: int = 14) -> str:
    """Words for a message; of many, the first."""
    all_words = [str(word) for word in words]
    more = f" and {len(all_words) - most} more" if len(all_words) > most else ""
    return ", ".join(all_words[:most]) + more


def check_value(flag: Flag, word: str, *, plugin: bool = False) -> Problem | None:
    """None when the flag takes the word. With a plugin given, words the engine does not know may be the plugin's."""
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
    """The number a size stands for to its engine, None when it is no size to it. M is not the same to every engine."""
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
    """Whether the number a flag takes can mean anything. Words beside numbers are not checked here."""
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
    """Words that the engine's parser passes and the engine refuses later, after minutes of loading."""
    if flag.values is None or word in flag.values or ("upper" in flag.also and word.upper() in flag.values):
        return None
    if word == flag.default or "." in word or ":" in word:
        return None  # the default, or the path of a class of one's own
    return (
        f"parses, but the engine knows no {show(word)!r}; it knows {listed(flag.values)}",
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
        return f"takes JSON; {show(word, 60)!r} is none ({show(error)})", None
    if flag.keys is None:
        return None
    if not isinstance(value, dict):
        return f"takes a JSON object, not {show(word)!r}", None
    for key in value:
        if (problem := check_key(flag, key)) is not None:
            return problem
    return None


def check_key(flag: Flag, key: str) -> Problem | None:
    """Whether the JSON of a flag may have a key."""
    if flag.keys is None or key in flag.keys:
        return None
    return f"has no key {show(key)!r}; its keys are {listed(flag.keys)}", nearest_key(key, flag)
