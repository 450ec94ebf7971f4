# SPDX-License-Identifier: Apache-2.0
"""Parses `ethtool PORT`, also `-i` (driver, firmware) and `--show-fec`, of one or more ports, complete or grepped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .captures import Section, key_value, sections, told, version

_FIELDS = (
    "speed_mbit",
    "duplex",
    "autonegotiation",
    "port_type",
    "link",
    "link_reason",
    "fec",
    "driver",
    "firmware",
    "pci",
)
_SPEED = re.compile(r"(?P<number>\d{1,12})\s*(?P<unit>[GMK]b/?p?s)?", re.IGNORECASE)
_NO_SPEED = (65535, 4294967295)
"""What older versions print for a port without a link: -1 in 16 and in 32 bits."""
_NAME = r"[A-Za-z][\w.-]{1,14}"
_LONE_NAME = re.compile(rf"^[=\-#*\s]*(?P<name>{_NAME})\s*:?[=\-#*\s]*$")
_NAME_FIRST = re.compile(rf"^\s*(?P<name>{_NAME})\s*:?\s+(?P<rest>(?:Speed|Link detected)\s*:.*)$", re.IGNORECASE)
_NOT_A_PORT = re.compile(r"^(?:full|half|fibre|yes|no|on|off|unknown|external|internal|transceiver)$", re.IGNORECASE)


def parse_ethtool(text: str) -> dict[str, dict[str, Any]]:
    """Parse every network port: {port: {speed_mbit, duplex, autonegotiation, port_type, link, ...}}; missing is None.

    A port printed twice has its last values; `ethtool_readings` has all of them. Values whose port is not named
    anywhere (`ethtool ... | grep Speed` without the command) are under the empty name.
    """
    ports: dict[str, dict[str, Any]] = {}
    for port, values in ethtool_readings(text):
        ports.setdefault(port, dict.fromkeys(_FIELDS)).update(values)
    return ports


def ethtool_readings(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the values of each printing of a port, in the order of the capture, and only those printed."""
    for section in sections(text):
        if section.tool == "ethtool" or (section.tool in ("", "echo") and _has_settings(section)):
            yield from _section_readings(section)


def _has_settings(section: Section) -> bool:
    """Whether lines without a heading come from ethtool: `| grep Speed` leaves no more than that."""
    return any(re.match(r"^[\w.\-:\s]*\b(?:Speed:\s*(?:\d|Unknown)|Link detected:)", line) for line in section.lines)


def _section_readings(section: Section) -> Iterator[tuple[str, dict[str, Any]]]:
    port = section.device or _asked_for(section)
    values: dict[str, Any] = {}
    for raw in section.lines:
        line = raw
        first, lone = _NAME_FIRST.match(line), _LONE_NAME.match(line)
        # From a loop that prints the name first; a name contains a digit, ethtool's values do not.
        named = first or (lone if not section.device and lone and re.search(r"\d", lone["name"]) else None)
        if named and not _NOT_A_PORT.match(named["name"]):
            if values:
                yield port, values
            port, values = named["name"], {}
            line = first["rest"] if first else ""
        key, value = key_value(line)
        if key in _READERS:
            values.update(_READERS[key](value))
    if values:
        yield port, values


def _asked_for(section: Section) -> str:
    """The port on the command line: `grep` removes the heading, and the output of `ethtool -i PORT` has none."""
    words = section.command.words if section.command and section.command.tool in ("ethtool", "echo") else ()
    named = [word.strip("\"'") for word in words if not word.startswith("-")]
    return named[-1] if named and re.fullmatch(_NAME, named[-1]) else ""


def _speed(value: str) -> dict[str, Any]:
    found = _SPEED.match(value)
    if not found or int(found["number"]) in _NO_SPEED:
        return {"speed_mbit": None}
    unit = (found["unit"] or "M")[0].upper()
    amount = int(found["number"])
    return {"speed_mbit": {"G": amount * 1000, "K": amount // 1000}.get(unit, amount)}


def _switch(name: str, words: dict[str, bool]) -> Any:
    def read(value: str) -> dict[str, Any]:
        return {name: words.get(value.split(maxsplit=1)[0].lower() if value.split() else "")}

    return read


def _link(value: str) -> dict[str, Any]:
    """Parse `yes`, `no`, or as a newer ethtool prints it, `no (No cable)`."""
    words = value.split()
    reason = re.search(r"\(([^)]*)\)", value)
    return {
        "link": {"yes": True, "no": False}.get(words[0].lower() if words else ""),
        "link_reason": reason[1] if reason else None,
    }


def _plain(name: str) -> Any:
    def read(value: str) -> dict[str, Any]:
        return {name: told(value)}

    return read


_READERS: dict[str, Any] = {
    "speed": _speed,
    "duplex": _plain("duplex"),
    "auto negotiation": _switch("autonegotiation", {"on": True, "off": False}),
    "port": _plain("port_type"),
    "link detected": _link,
    "active fec encoding": _plain("fec"),
    "active fec encodings": _plain("fec"),
    "driver": _plain("driver"),
    "firmware version": lambda value: {"firmware": version(value)},
    "bus info": _plain("pci"),
}
