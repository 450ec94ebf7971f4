# SPDX-License-Identifier: Apache-2.0
"""Split a command line as the engine's own parser would: program, flags with their values, and stray words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
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
"""How an engine's server is called. An interpreter or a launcher may precede it."""
SERVERS = {"vllm": "vllm serve", "sglang": "python -m sglang.launch_server", "tensorrt-llm": "trtllm-serve"}
"""The form of the call that messages use."""

MODEL = "--model"
LAUNCHERS = re.compile(r"python[\d.]*|trtllm-llmapi-launch")
OF_AN_ENGINE = re.compile(r"vllm|sglang|trtllm-[a-z-]+")
OTHER_SERVERS = {"disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve"}
"""Commands of trtllm-serve with flags of their own."""
COMMAND = re.compile(r"[a-z][a-z0-9_-]*")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=.*", re.DOTALL)
ENV_WITH_VALUE = {"-u", "--unset", "-C", "--chdir"}
GLUED = re.compile(r"(--?[A-Za-z][\w.-]*) |[^=]* --?[A-Za-z]")
"""Matches a flag with more text in one word, or a command line in one word."""
NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")
ATTACHED = re.compile(r"(-[A-Za-z])=?(.+)", re.DOTALL)


@dataclass(frozen=True)
class Use:
    """A flag as it occurs in a command line."""

    word: str
    name: str
    flag: Flag | None
    key: str | None = None
    """The key in `--x.key VALUE`."""
    values: tuple[str, ...] = ()
    problem: str | None = None
    """The problem if the number of values is invalid."""


@dataclass(frozen=True)
class Stray:
    """A word that belongs to no flag."""

    word: str


@dataclass(frozen=True)
class Called:
    """The beginning of a command line, split off."""

    variables: tuple[str, ...]
    """Names of the variables that are set for it."""
    other: str | None
    """The program, if it is not the engine's server."""
    arguments: tuple[str, ...]


def read_call(engine: str, words: Sequence[str]) -> Called:
    """Split off the beginning of a command line: variables, then a launcher, then the program."""
    variables, rest = _take_variables(words)
    arguments = without_program(engine, rest)
    if len(arguments) < len(_without_launcher(rest)):
        return Called(variables, None, tuple(arguments))
    other = _other_program(arguments)
    return Called(variables, " ".join(other) or None, tuple(arguments[len(other) :]))


def _take_variables(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Split off variables set before a command by the shell, `export` or `env`; return their names and the command."""
    rest = list(words)
    names: list[str] = []
    if rest[:1] == ["export"]:
        rest = rest[1:]
    elif rest and _is_program(rest[0], "env"):
        rest = rest[1:]
        while rest and rest[0].startswith("-"):
            rest = rest[2 if rest[0] in ENV_WITH_VALUE else 1 :]
    while rest and (match := ASSIGNMENT.fullmatch(rest[0])) is not None:
        names.append(match[1])
        rest = rest[1:]
    return tuple(names), rest


def _is_program(word: str, name: str) -> bool:
    return word == name or word.endswith(f"/bin/{name}")


def _other_program(words: Sequence[str]) -> list[str]:
    """Return the words that call a program other than the engine's server; empty if there are none."""
    if not words:
        return []
    name = PurePosixPath(words[0]).name
    if words[0] == "-m":
        called = next((program for known in PROGRAMS.values() for program in known if program == tuple(words[:2])), ())
        return list(words[: max(2, len(called))])
    if OF_AN_ENGINE.fullmatch(name) is None or not _is_program(words[0], name):
        return []
    if name in {"vllm", "sglang"}:  # vllm bench serve
        return [name, *takewhile(COMMAND.fullmatch, words[1:3])]
    return [name, *takewhile({"serve", *OTHER_SERVERS}.__contains__, words[1:2])]


def _without_launcher(words: Sequence[str]) -> list[str]:
    rest = list(words)
    while rest and LAUNCHERS.fullmatch(PurePosixPath(rest[0]).name):
        rest = rest[1:]
    return rest


def without_program(engine: str, words: Sequence[str]) -> list[str]:
    """Return a command line starting from the program's own arguments."""
    rest = _without_launcher(words)
    for program in PROGRAMS.get(engine, ()):
        start = [PurePosixPath(rest[0]).name, *rest[1 : len(program)]] if rest else []
        if tuple(start) == program and not (program == ("trtllm-serve",) and rest[1:2] and rest[1] in OTHER_SERVERS):
            return rest[len(program) :]
    return rest


def looks_like_flag(word: str) -> bool:
    """Whether argparse sees a flag: a dash begins one, except in negative numbers and in text with spaces."""
    if len(word) < 2 or not word.startswith("-") or NEGATIVE.fullmatch(word):
        return False
    return " " not in word.partition("=")[0]


def split_words(schema: EngineSchema, words: Sequence[str]) -> Iterator[Use | Stray]:
    """Yield flags with their values, and stray words, in their order."""
    rest = list(words)
    named = any(word.partition("=")[0] == MODEL for word in rest)  # takes the place of the positional argument
    positional = max(0, len(schema.positional) - (named and MODEL in schema.by_name))
    place = 0
    while place < len(rest):
        word = rest[place]
        place += 1
        if word == "--":
            yield from (Stray(stray) for stray in rest[place + positional :])
            return
        if not looks_like_flag(word):
            if positional and GLUED.match(word) is None:
                positional -= 1
            else:
                yield Stray(word)
            continue
        use, taken = _read_flag(schema, word, rest, place)
        place += taken
        yield use


def _read_flag(schema: EngineSchema, word: str, rest: Sequence[str], place: int) -> tuple[Use, int]:
    """Return a flag with its values, and how many further words those are."""
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
    """Return the minimum and maximum number of values of a flag."""
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
    """Read `--x.key VALUE`: like the engine, take the next word as the value, whatever it looks like."""
    base, _, key = name.partition(".")
    flag = schema.by_name.get(base)
    if given is None and place >= len(rest):
        return Use(word, base, flag, key=key, problem="takes one value, found none"), 0
    if given is None:
        return Use(word, base, flag, key=key, values=(rest[place],)), 1
    return Use(word, base, flag, key=key, values=(given,)), 0


def plain_name(schema: EngineSchema, name: str) -> str:
    """Return a flag's name as the engine's parser compares it."""
    if not schema.underscores or not name.startswith("--"):
        return name
    base, dot, key = name.partition(".")
    return base.replace("_", "-") + dot + key
