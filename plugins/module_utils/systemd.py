# SPDX-License-Identifier: Apache-2.0
"""Render unit files and their command lines, and parse `systemctl show`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .parsers.systemd import parse_properties

HEADER = "# firstlight: written by firstlight, changes are overwritten\n"

DRIVER_UNITS = ("nvidia-persistenced.service", "nvidia-fabricmanager.service")
"""Units that must have started before a GPU is used, if they exist; ordering after a missing unit has no effect.

A fabric manager was seen to take 47 s, and CUDA fails with error 802 before that (NVIDIA/nvtrust#128).
"""

SHOW_PROPERTIES = "LoadState,ActiveState,SubState,Result,NRestarts"
"""The properties that `parse_show` needs: systemctl show --property=..."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-=+./:,@%$^~")


def quote(argument: str) -> str:
    """Quote an argument for systemd: no specifiers, no variables, no splitting at white space."""
    if "\x00" in argument:
        raise ValueError("a command argument has a NUL character in it: remove it")
    escaped = argument.replace("%", "%%").replace("$", "$$")
    if argument and _PLAIN.issuperset(argument):
        return escaped
    for character, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        escaped = escaped.replace(character, written)
    return f'"{escaped}"'


def plain(text: str) -> str:
    """Make free text safe for a unit file: one line, with per cent signs escaped."""
    return " ".join(text.split()).replace("%", "%%")


def command(argv: Sequence[str], prefix: str = "") -> str:
    """Render a command for Exec*=, one argument per line, so that a diff of the unit shows which one changed."""
    return prefix + " \\\n    ".join(quote(argument) for argument in argv)


def render_unit(sections: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> str:
    """Render a unit file from sections, each a list of settings (a list, as Exec lines may repeat).

    Raises ValueError for a value with a line feed, a carriage return or a NUL, which would end its line for systemd:
    what follows would be a setting of its own.
    """
    blocks = [
        f"[{name}]\n" + "".join(f"{setting}={_one_line(setting, value)}\n" for setting, value in settings)
        for name, settings in sections
    ]
    return HEADER + "\n".join(blocks)


def _one_line(setting: str, value: str) -> str:
    if any(end in value.replace(" \\\n", "") for end in "\n\r\x00"):
        raise ValueError(f"the value of {setting} in a unit has a line break in it, expected one line: remove it")
    return value


@dataclass(frozen=True)
class UnitState:
    """The state of a unit."""

    load: str = "not-found"
    active: str = "inactive"
    sub: str = "dead"
    result: str = "success"
    restarts: int = 0

    @property
    def words(self) -> str:
        """For a message: what systemctl status would show first."""
        if self.load in ("not-found", "masked"):
            return self.load
        told = f"{self.active} ({self.sub})"
        if self.result not in ("success", ""):
            told += f", result {self.result}"
        if self.restarts:
            told += f", restarted {self.restarts} times"
        return told


def parse_show(text: str) -> UnitState:
    """Parse `systemctl show --property=LoadState,ActiveState,SubState,Result,NRestarts UNIT`."""
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
"""The property that `started_at` needs."""


def started_at(text: str, monotonic: float, now: float) -> int | None:
    """Return when a unit was last started, in seconds since the epoch, rounded down; None if systemd does not know.

    `text` is the output of `systemctl show`, `monotonic` and `now` are the current values of both clocks. Wall-clock
    properties are not used because their format depends on the version of systemd.
    """
    micros = parse_properties(text).get(START_PROPERTY, "0")
    if not micros.isdecimal() or micros == "0":
        return None
    return math.floor(now - (monotonic - int(micros) / 1e6))


def redact(lines: Iterable[str], secrets: Iterable[str]) -> list[str]:
    """Replace these secrets in the lines; those under 8 characters stay, as they would match everywhere."""
    hidden = [secret for secret in secrets if len(secret) >= 8]
    cleaned = []
    for line in lines:
        told = line
        for secret in hidden:
            told = told.replace(secret, "********")
        cleaned.append(told)
    return cleaned
