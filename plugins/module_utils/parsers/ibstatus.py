# SPDX-License-Identifier: Apache-2.0
"""Parses `ibstatus`: what sysfs reports about every port, one block each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .captures import key_value, link_layer, number, physical_state, port_state, runs, sections, told

_UNNAMED = re.compile(r"^\s*phys state:", re.IGNORECASE)
_FIELDS = ("state", "phys_state", "rate_gbit", "rate", "link_layer", "gid", "lid")


def parse_ibstatus(text: str) -> dict[str, dict[int, dict[str, Any]]]:
    """Parse every device with its ports: {device: {port: {state, phys_state, rate_gbit, link_layer, ...}}}.

    `rate` is the whole phrase (`200 Gb/sec (4X HDR)`), `rate_gbit` its number. Missing values are None. Ports without a
    device named in the text are under ?1, ?2, and so on.
    """
    devices: dict[str, dict[int, dict[str, Any]]] = {}
    for section in sections(text):
        if section.tool == "ibstatus" and section.device:
            ports = devices.setdefault(section.device, {})
            ports.setdefault(section.port or 1, dict.fromkeys(_FIELDS)).update(_values(section.lines))
        elif section.tool == "ibstatus" or any(_UNNAMED.match(line) for line in section.lines if not section.tool):
            for lines in runs(section.lines, _READERS):
                devices[f"?{len(devices) + 1}"] = {1: dict.fromkeys(_FIELDS) | _values(lines)}
    return devices


def _values(lines: Iterable[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for line in lines:
        key, value = key_value(line)
        if key in _READERS:
            name, read = _READERS[key]
            values[name] = read(value)
            if name == "rate_gbit":
                values["rate"] = told(value)
    return values


_READERS: dict[str, tuple[str, Any]] = {
    "state": ("state", port_state),
    "phys state": ("phys_state", physical_state),
    "rate": ("rate_gbit", number),
    "link layer": ("link_layer", link_layer),
    "default gid": ("gid", told),
    "base lid": ("lid", told),
}
