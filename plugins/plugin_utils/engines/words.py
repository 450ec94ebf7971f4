# SPDX-License-Identifier: Apache-2.0
"""A command line taken apart as the engine's own parser would: program words, flags, their values, what is left."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema, Flag

PROGRAMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "vllm": (
        ("vllm", "serve"),
        ("-m", "vllm.entrypoints.openai.api_server"),
        ("-m", "vllm.entrypoints.cli.main", "serve"),
    ),
    "sglang": (("-m", "sglang.launch_server"), ("sglang", "serve")),
    "tensorrt-llm": (("trtllm-serve", "serve"), ("trtllm-serve",)),
}
"""How an engine's server is called. Before it may stand an interpreter or a launcher."""

MODEL = "--model"
LAUNCHERS = re.compile(r"python[\d.]*|trtllm-llmapi-launch")
NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")
ATTACHED = re.compile(r"(-[A-Za-z])=?(.+)", re.DOTALL)


@dataclass(frozen=True)
class Use:
    """A flag as it stands in a command line."""

    word: str
    name: str
    flag: Flag | None
    key: str | None = None
    """Of `--x.key VALUE`, the key."""
    values: tuple[str, ...] = ()
    problem: str | None = None
    """What is wrong with the number of its values."""


@dataclass(frozen=True)
class Stray:
    """A word that belongs to no flag."""

    word: str


def without_program(engine: str, words: Sequence[str]) -> list[str]:
    """A command line from the program's own arguments on."""
    rest = list(words)
    while rest and LAUNCHERS.fullmatch(PurePosixPath(rest[0]).name):
        rest = rest[1:]
    for program in PROGRAMS.get(engine, ()):
        start = [PurePosixPath(rest[0]).name, *rest[1 : len(program)]] if rest else []
        if tuple(start) == program:
            return rest[len(program) :]
    return rest


def looks_like_flag(word: str) -> bool:
    """As argparse sees it: a dash begins a flag, except in negative numbers and in text with spaces."""
    if len(word) < 2 or not word.startswith("-") or NEGATIVE.fullmatch(word):
        return False
    return " " not in word.partition("=")[0]


def split_words(schema: EngineSchema, words: Sequence[str]) -> Iterator[Use | Stray]:
    """Flags with their values, and stray words, in their order."""
    rest = list(words)
    named = any(word.partition("=")[0] == MODEL for word in rest)  # takes the place of the word without a flag
    positional = max(0, len(schema.positional) - (named and MODEL in schema.by_name))
    place = 0
    while place < len(rest):
        word = rest[place]
        place += 1
        if word == "--":
            yield from (Stray(stray) for stray in rest[place + positional :])
            return
        if not looks_like_flag(word):
            if positional:
                positional -= 1
            else:
                yield Stray(word)
            continue
        use, taken = _read_flag(schema, word, rest, place)
        place += taken
        yield use


def _read_flag(schema: EngineSchema, word: str, rest: Sequence[str], place: int) -> tuple[Use, int]:
    """A flag with its values, and how many further words those are."""
    name, equals, attached = word.partition("=")
    name = plain_name(schema, name)
    given = attached if equals else None
    if schema.subkeys and "." in name:
        return _read_key(schema, word, name, given, rest, place)
    name = schema.attached.get(name, name)
    flag = schema.by_name.get(name)
    if flag is None and (short := ATTACHED.fullmatch(word)) is not None and not word.startswith("--"):
        name, given = schema.attached.get(short[1], short[1]), short[2]
        flag = schema.by_name.get(name)
    if flag is None:
        follows = given is None and place < len(rest) and not looks_like_flag(rest[place])
        return Use(
            word, plain_name(schema, word.partition("=")[0]), None, values=tuple(rest[place : place + follows])
        ), int(follows)
    if given is not None:
        return _with_attached(Use(word, name, flag), given), 0
    following: list[str] = []
    least, most = _numbers(flag.nargs, len(rest))
    for candidate in rest[place:]:
        if len(following) >= most or candidate == "--" or looks_like_flag(candidate):
            break
        following.append(candidate)
    problem = None
    if len(following) < least:
        wanted = "one value" if least == 1 else f"{least} values"
        problem = f"takes {wanted}, found {len(following) or 'none'}"
    return Use(word, name, flag, values=tuple(following), problem=problem), len(following)


def _numbers(nargs: int | str | None, all_of_them: int) -> tuple[int, int]:
    """The least and the most values of a flag."""
    match nargs:
        case int():
            return nargs, nargs
        case "?":
            return 0, 1
        case "+":
            return 1, all_of_them
        case "*":
            return 0, all_of_them
    return 1, 1


def _with_attached(use: Use, given: str) -> Use:
    if use.flag is not None and isinstance(use.flag.nargs, int) and use.flag.nargs > 1:
        return Use(use.word, use.name, use.flag, values=(given,), problem=f"takes {use.flag.nargs} values, found 1")
    return Use(use.word, use.name, use.flag, values=(given,))


def _read_key(
    schema: EngineSchema, word: str, name: str, given: str | None, rest: Sequence[str], place: int
) -> tuple[Use, int]:
    """`--x.key VALUE`: the next word is the value whatever it looks like, because the engine takes it so."""
    base, _, key = name.partition(".")
    flag = schema.by_name.get(base)
    if given is None and place >= len(rest):
        return Use(word, base, flag, key=key, problem="takes one value, found none"), 0
    if given is None:
        return Use(word, base, flag, key=key, values=(rest[place],)), 1
    return Use(word, base, flag, key=key, values=(given,)), 0


def plain_name(schema: EngineSchema, name: str) -> str:
    """A flag's name as the engine's parser compares it."""
    if not schema.underscores or not name.startswith("--"):
        return name
    base, dot, key = name.partition(".")
    return base.replace("_", "-") + dot + key
