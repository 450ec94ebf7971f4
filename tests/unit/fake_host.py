# SPDX-License-Identifier: Apache-2.0
"""The host that unit tests hand to what runs commands and reads files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.host import (
    RC_NOT_FOUND,
    RC_TIMEOUT,
    Host,
    Result,
)


@dataclass(frozen=True)
class Call:
    """A command as the code under test ran it."""

    argv: tuple[str, ...]
    timeout: float = 30.0
    env: Mapping[str, str] | None = None
    stdin: str | None = None

    @property
    def line(self) -> str:
        return " ".join(self.argv)


Reply = Result | str | int | Exception
"""What a command returns: a result, its standard output, its exit status, or what it raises."""
Answer = Reply | list[Reply] | Callable[[Call], Reply]
"""A reply, replies in turn of which the last one stays, or a function of the call."""


def not_installed(call: Call) -> Result:
    return Result(call.argv, RC_NOT_FOUND, problem=f"{call.argv[0]} is not installed")


def no_answer(call: Call) -> Result:
    return Result(call.argv, RC_TIMEOUT, problem=f"{call.argv[0]} gave no answer within {call.timeout:g} s")


def failure(stderr: str = "", rc: int = 1) -> Result:
    return Result((), rc, stderr=stderr)


class FakeHost(Host):
    """A host that has only the commands and files it was given; any other one fails the test.

    `commands` maps the beginning of a command line to its answer; the longest one that fits is used, and "" fits
    every command. `files` maps paths to texts, and to None where a file is absent; a path with a slash at its end
    stands for everything below it. Without `files` those of this machine are read, as if root owned them.
    """

    def __init__(self, commands: Mapping[str, Answer] | None = None, files: Mapping[str, str | None] | None = None):
        self.commands = dict(commands or {})
        self.files = None if files is None else dict(files)
        self.calls: list[Call] = []
        self.free = 10**12
        self.used = 0
        self.mtime_ns = 1
        self.now = 0.0

    @property
    def ran(self) -> Sequence[tuple[str, ...]]:
        """Every command in the order they were run."""
        return [call.argv for call in self.calls]

    @property
    def lines(self) -> Sequence[str]:
        """The same as command lines."""
        return [call.line for call in self.calls]

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds

    # -- what the code under test uses ------------------------------------------------------------------------------

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> Result:
        assert timeout > 0, f"no time for {' '.join(argv)}"
        call = Call(tuple(argv), timeout, env, stdin)
        self.calls.append(call)
        reply = self.answer(call)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            return Result(call.argv, 0, reply)
        return Result(call.argv, reply) if isinstance(reply, int) else replace(reply, argv=call.argv)

    def answer(self, call: Call) -> Reply:
        """The reply to a command; a test whose host keeps state may override it."""
        fitting = [start for start in self.commands if _begins(call, start)]
        start = max(fitting, key=len, default=None)
        assert start is not None, f"unexpected command: {call.line}"
        found = self.commands[start]
        if isinstance(found, list):
            return found.pop(0) if len(found) > 1 else found[0]
        return found(call) if callable(found) else found

    def has(self, program: str) -> bool:
        named = [found for start, found in self.commands.items() if start.split()[:1] == [program]]
        return any(found is not not_installed for found in named or [self.commands.get("", not_installed)])

    def read_text(self, path: str) -> str | None:
        return super().read_text(path) if self.files is None else self._file(path)

    def names(self, path: str) -> list[str]:
        if self.files is None:
            return super().names(path)
        below = [one for one, text in self.files.items() if text is not None and one.startswith(f"{path}/")]
        return sorted({one[len(path) + 1 :].partition("/")[0] for one in below})

    def sha256(self, path: str) -> str:
        if self.files is None:
            return super().sha256(path)
        text = self._file(path)
        if text is None:
            raise FileNotFoundError(path)
        return hashlib.sha256(text.encode()).hexdigest()

    def file_state(self, path: str) -> dict[str, Any]:
        if self.files is None:
            state = super().file_state(path)
            return {**state, "owner": "root", "group": "root"} if state["exists"] else state
        if self._file(path) is None:
            return dict.fromkeys(("sha256", "mode", "owner", "group"), None) | {"exists": False}
        return {"exists": True, "sha256": self.sha256(path), "mode": "0644", "owner": "root", "group": "root"}

    def size_and_mtime(self, path: str) -> tuple[int, int] | None:
        if self.files is None:
            return super().size_and_mtime(path)
        text = self._file(path)
        return None if text is None else (len(text.encode()), self.mtime_ns)

    def disk_free(self, path: str) -> int:
        return self.free

    def disk_used(self, path: str, most: int = 4096) -> int:
        return self.used

    def _file(self, path: str) -> str | None:
        assert self.files is not None
        if path in self.files:
            return self.files[path]
        below = max((one for one in self.files if one.endswith("/") and path.startswith(one)), key=len, default=None)
        assert below is not None, f"unexpected file: {path}"
        return self.files[below]


def _begins(call: Call, start: str) -> bool:
    """Whether the command line begins so, with the whole name of its program: "ip" is no beginning of "iperf3"."""
    return call.line.startswith(start) and start.split()[:1] in ([], [call.argv[0]])
