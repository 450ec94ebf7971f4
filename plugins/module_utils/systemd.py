# SPDX-License-Identifier: Apache-2.0
"""How a unit file and its command lines are written, and what `systemctl show` says of a unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .parsers.systemd import parse_properties

HEADER = "# firstlight: written by firstlight, changes are overwritten\n"

DRIVER_UNITS = ("nvidia-persistenced.service", "nvidia-fabricmanager.service")
"""What has to have started before a GPU is used, where it is there at all; a unit that is not installed orders nothing.

A fabric manager was seen to take 47 s, and CUDA ends with error 802 before that (NVIDIA/nvtrust#128).
"""

SHOW_PROPERTIES = "LoadState,ActiveState,SubState,Result,NRestarts"
"""What `parse_show` needs to be asked for: systemctl show --property=..."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-=+./:,@%$^~")


def quote(argument: str) -> str:
    """One argument as systemd reads it back: no specifier, no variable, no splitting at blanks."""
    if "\x00" in argument:
        raise ValueError("a command argument has a NUL character in it: take it out")
    escaped = argument.replace("%", "%%").replace("$", "$$")
    if argument and _PLAIN.issuperset(argument):
        return escaped
    for character, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        escaped = escaped.replace(character, written)
    return f'"{escaped}"'


def plain(text: str) -> str:
    """A text for people, in one line: a per cent sign in it is one, and no line of it is a setting."""
    return " ".join(text.split()).replace("%", "%%")


def command(argv: Sequence[str], prefix: str = "") -> str:
    """A command for Exec*=, one argument a line, so that a diff of the unit shows which one changed."""
    return prefix + " \\\n    ".join(quote(argument) for argument in argv)


def render_unit(sections: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> str:
    """A unit file of these sections, each a list of settings (a list: Exec lines may repeat).

    Raises ValueError for a value that would end its line, as a line feed, a carriage return and a NUL do for systemd:
    what follows would be a setting of its own.
    """
    blocks = [
        f"[{name}]\n" + "".join(f"{setting}={_one_line(setting, value)}\n" for setting, value in settings)
        for name, settings in sections
    ]
    return HEADER + "\n".join(blocks)


def _one_line(setting: str, value: str) -> str:
    if any(end in value.replace(" \\\n", "") for end in "\n\r\x00"):
        raise ValueError(f"the value of {setting} in a unit has an end of a line in it, expected one line: take it out")
    return value


@dataclass(frozen=True)
class UnitState:
    """A unit's life in a few words."""

    load: str = "not-found"
    active: str = "inactive"
    sub: str = "dead"
    result: str = "success"
    restarts: int = 0

    @property
    def words(self) -> str:
        """For a message: what systemctl status would say first."""
        if self.load in ("not-found", "masked"):
            return self.load
        told = f"{self.active} ({self.sub})"
        if self.result not in ("success", ""):
            told += f", result {self.result}"
        if self.restarts:
            told += f", restarted {self.restarts} times"
        return told


def parse_show(text: str) -> UnitState:
    """Read `systemctl show --property=LoadState,ActiveState,SubState,Result,NRestarts UNIT`."""
    values = parse_properties(text)
    restarts = values.get("NRestarts", "0")
    return UnitState(
        load=values.get("LoadState", "not-found"),
        active=values.get("ActiveState", "inactive"),
        sub=values.get("SubState", "dead"),
        result=values.get("Result", "success"),
        restarts=int(restarts) if restarts.isdecimal() else 0,
    )


START_PROPERTY = "InactiveExitTimestampMonotonic"
"""What `started_at` needs to be asked for."""


def started_at(text: str, monotonic: float, now: float) -> int | None:
    """When a unit was started last, in seconds since the epoch and not late; None where systemd does not know.

    `text` is what `systemctl show` says, `monotonic` and `now` are the two clocks: how systemd writes the time of day
    depends on its version.
    """
    micros = parse_properties(text).get(START_PROPERTY, "0")
    if not micros.isdecimal() or micros == "0":
        return None
    return math.floor(now - (monotonic - int(micros) / 1e6))


def redact(lines: Iterable[str], secrets: Iterable[str]) -> list[str]:
    """The same lines without these secrets; very short ones are left, they would blank half of the text."""
    hidden = [secret for secret in secrets if len(secret) >= 8]
    cleaned = []
    for line in lines:
        told = line
        for secret in hidden:
            told = told.replace(secret, "********")
        cleaned.append(told)
    return cleaned
