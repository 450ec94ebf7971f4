# SPDX-License-Identifier: Apache-2.0
"""Terminal output of logs from many hosts: time, host, unit, text."""

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
"""The least severe journal priority that indicates trouble."""
_FURTHER = "\n" + 24 * " "
"""Indents the continuation lines of an entry, so that they cannot be mistaken for entries of another host."""


def check_since(text: str) -> str:
    """Convert a time for journalctl: 15m is relative to each host's own clock, an absolute time is UTC."""
    if len(text) > 1 and text[:-1].isdecimal() and text[-1] in _UNITS:
        return f"{int(text[:-1])} {_UNITS[text[-1]]} ago"
    moment = parse_time(text)
    if moment is None or len(text) < len("2026-11-15"):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 15m, 2h, 1d or 2026-11-15T09:00")
    return f"@{int(moment.timestamp())}"


def unit_name(text: str) -> str:
    """Return the full unit name for ray, server-0 or firstlight-ray.service."""
    name = text.removeprefix("firstlight-").removesuffix(".service")
    if not name or not name.replace("-", "").replace("*", "").isalnum():
        raise argparse.ArgumentTypeError(f"{text!r} is no unit: write ray, server, server-0, balancer or supervisor")
    return f"firstlight-{name}.service"


def moment(microseconds: int) -> str:
    """Format a timestamp in UTC, to the millisecond."""
    found = datetime.datetime.fromtimestamp(microseconds / 1e6, tz=datetime.UTC)
    return found.strftime("%Y-%m-%d %H:%M:%S.") + f"{found.microsecond // 1000:03d}"


class Printer:
    """Prints successive documents; each host has its own colour, and an unchanged failure is reported once."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._console = open_console()
        self._colours: dict[str, str] = {}
        self._complained: dict[str, str] = {}

    def show(self, document: Mapping[str, Any]) -> None:
        """Print the entries, and the hosts that did not answer."""
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
