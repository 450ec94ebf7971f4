# SPDX-License-Identifier: Apache-2.0
"""The reader that runs inside an engine's interpreter, on parsers like the engines'."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import json
from collections.abc import Callable
from typing import Any

import pytest

from scripts.schemas.inside import describe_parser, plain, probe, units_of


class Level(enum.IntEnum):
    LOW = 0
    HIGH = 2


@dataclasses.dataclass
class Settings:
    depth: int = 1
    _hidden: int = 0


def optional(converter: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(word: str) -> Any:
        return None if word in {"", "None"} else converter(word)

    return convert


def human(word: str) -> int:
    return int(float(word[:-1]) * 1000) if word.endswith("k") else int(word)


def human_or_auto(word: str) -> int:
    return -1 if word == "auto" else human(word)


def dict_or_text(word: str) -> Any:
    return json.loads(word) if word.startswith("{") else word


def fold(word: str) -> str:
    return word.lower().replace("-", "_")


def parse_dataclass(word: str, kind: type[Settings] = Settings) -> Settings:
    try:
        return kind(**json.loads(word.replace("1k", "1000")))
    except TypeError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


@pytest.mark.parametrize(
    ("converter", "expected"),
    [
        (None, ("str", [])),
        (str, ("str", [])),
        (int, ("int", [])),
        (float, ("float", [])),
        (json.loads, ("json", [])),
        (human, ("size", [])),
        (human_or_auto, ("size", ["auto"])),
        (optional(str), ("str", ["none"])),
        (optional(human), ("size", ["none"])),
        (optional(json.loads), ("json", ["none"])),
        (dict_or_text, ("json", ["text"])),
        (fold, ("str", ["fold"])),
        (parse_dataclass, ("json", ["suffix"])),
    ],
)
def test_a_converter_is_known_by_what_it_takes(converter: Any, expected: tuple[str, list[str]]) -> None:
    assert probe(converter) == expected


def test_units() -> None:
    assert units_of(human) == ({"k": 1000}, ["k"])


def test_arguments_of_a_parser() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?")
    group = parser.add_argument_group("Group")
    group.add_argument("--on", "-o", action=argparse.BooleanOptionalAction)
    group.add_argument("--level", type=int, choices=[1, 2], default=Level.HIGH)
    group.add_argument("--maybe", type=optional(str), choices=["a", None])
    group.add_argument("--more", action="append", metavar="{x,y}")
    group.add_argument("--old", help="Deprecated: use --level instead")
    group.add_argument("--settings", type=parse_dataclass, default=Settings())
    model, on, level, maybe, more, old, settings = describe_parser(parser)
    assert (model["names"], model["name"], model["nargs"]) == ([], "model", "?")
    assert (on["names"], on["type"], on["negatable"], on["help"]) == (["--on", "-o"], "bool", True, "Group")
    assert (level["choices"], level["default"]) == ([1, 2], 2)
    assert (maybe["choices"], maybe["also"]) == (["a"], ["none"])
    assert (more["values"], more["repeatable"]) == (["x", "y"], True)
    assert old["deprecated"] == "use --level"
    assert (settings["keys"], settings["default"]) == (["depth"], None)


def test_defaults_are_plain() -> None:
    assert plain({"b": {1, 2}, "a": (Level.LOW, "x")}) == {"a": [0, "x"], "b": [1, 2]}
    assert plain(argparse.SUPPRESS) is None
    assert plain(object()) is None
