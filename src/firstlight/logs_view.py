# SPDX-License-Identifier: Apache-2.0
"""Lines of many hosts for a person: when, where, who, what."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.serving.phase import parse_time
from rich.text import Text

from .console import open_console, safe

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_COLOURS = ("cyan", "magenta", "green", "blue", "yellow", "bright_cyan", "bright_magenta", "bright_green")
_WARNING = 4
"""The least bad priority of the journal that is trouble."""
_FURTHER = "\n" + 24 * " "
"""Before the further lines of an entry: nobody may take them for entries, perhaps of another host."""


def check_since(text: str) -> str:
    """What journalctl is told: 15m is a quarter of an hour ago by each host's own clock, a moment is one in UTC."""
    if len(text) > 1 and text[:-1].isdecimal() and text[-1] in _UNITS:
        return f"{int(text[:-1])} {_UNITS[text[-1]]} ago"
    moment = parse_time(text)
    if moment is None or len(text) < len("2026-11-15"):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 15m, 2h, 1d or 2026-11-15T09:00")
    return f"@{int(moment.timestamp())}"


def unit_name(text: str) -> str:
    """The whole name of a unit that is called ray, server-0 or firstlight-ray.service."""
    name = text.removeprefix("firstlight-").removesuffix(".service")
    if not name or not name.replace("-", "").replace("*", "").isalnum():
        raise argparse.ArgumentTypeError(f"{text!r} is no unit: write ray, server, server-0, balancer or supervisor")
    return f"firstlight-{name}.service"


def moment(microseconds: int) -> str:
    """A time as it is shown: UTC, to the millisecond."""
    found = datetime.datetime.fromtimestamp(microseconds / 1e6, tz=datetime.UTC)
    return found.strftime("%Y-%m-%d %H:%M:%S.") + f"{found.microsecond // 1000:03d}"


class Printer:
    """Shows one document after another; each host has a colour of its own, and is complained of once."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._console = open_console()
        self._colours: dict[str, str] = {}
        self._complained: dict[str, str] = {}

    def show(self, document: Mapping[str, Any]) -> None:
        """Print its lines, and which hosts are silent."""
        for host, why in document["silent"].items():
            if self._complained.get(host) != why:
                print(f"firstlight: {safe(str(host))}: {safe(str(why))}", file=sys.stderr)
        self._complained = dict(document["silent"])
        for entry in document["entries"]:
            if self._as_json:
                sys.stdout.write(json.dumps(entry) + "\n")
            else:
                self._print(entry)
        sys.stdout.flush()

    def _print(self, entry: Mapping[str, Any]) -> None:
        host = str(entry.get("host") or "")
        colour = self._colours.setdefault(host, _COLOURS[len(self._colours) % len(_COLOURS)])
        text = safe(str(entry.get("text") or "")).replace("\n", _FURTHER)
        unit = str(entry.get("unit") or "").removeprefix("firstlight-").removesuffix(".service")
        told = Text.assemble(
            (moment(int(entry.get("at") or 0)), "dim"),
            " ",
            (safe(host), colour),
            " ",
            (safe(unit.replace("\n", " ")), "bold"),
            " ",
            (text, "red" if int(entry.get("priority", 6)) <= _WARNING else ""),
        )
        self._console.print(told, soft_wrap=True)
