# SPDX-License-Identifier: Apache-2.0
"""Parses `lspci -d 10de:` with -n, -nn or neither: NVIDIA's devices on the PCI bus, independent of the driver."""

from __future__ import annotations

import re
from typing import Any

from .captures import capture_lines
from .fields import read_bus
from .reading import quoted

_DEVICE = re.compile(
    r"^\s*(?P<bus>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+\"?(?P<rest>\S.{0,300})$", re.IGNORECASE
)
_NUMBERS = re.compile(
    r"^(?P<kind>[0-9a-f]{4})\"?:?\s+\"?(?P<vendor>[0-9a-f]{4})[:\"\s]+(?P<device>[0-9a-f]{4})\b", re.IGNORECASE
)
_IN_BRACKETS = re.compile(
    r"\[(?P<kind>[0-9a-f]{4})\]:.*\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]", re.IGNORECASE
)
_WORDS = (
    ("VGA compatible controller", "0300"),
    ("3D controller", "0302"),
    ("Display controller", "0380"),
    ("Bridge:", "0680"),
)
_GONE = re.compile(r"\(rev ff\)|unknown header type 7f", re.IGNORECASE)
_WHOLE = re.compile(r"^\s*#\s*(?P<count>\d{1,6}) PCI devices in all, (?P<own>\d{1,6}) of NVIDIA's\s*$")
_PART = re.compile(r"\blspci\b.*(?:\||\s-s\b|::)")
"""A command that shows only some of the devices."""
_NVIDIA, GPU, NVSWITCH = "10de", ("0300", "0302"), "0680"


def last_line(count: int, own: int) -> str:
    """The last line of a listing made from sysfs: it counts the devices, so that truncation shows."""
    return f"# {count} PCI devices in all, {own} of NVIDIA's"


def parse_lspci(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse GPUs and NVSwitches by address; `gone` if a device no longer answers the bus (revision ff).

    `listed_devices` is the number of NVIDIA's devices if the listing states it, `part` whether it shows only some.
    """
    found: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    listed: int | None = None
    part = False
    last = None
    for line in capture_lines(text):
        whole, device = _WHOLE.match(line), _DEVICE.match(line)
        part = part or bool(_PART.search(line))
        if whole:
            listed = int(whole["own"])
        elif device:
            last = _read(device["bus"], device["rest"], problems)
            if last is not None:
                found[last["bus"]] = last
        elif last is not None and _GONE.search(line):
            last["gone"] = True
    if listed is not None and listed != len(found):
        problems.append(f"{len(found)} of {listed} NVIDIA devices are shown")
    if not found and listed != 0:
        first = next((line for line in capture_lines(text) if line.strip()), "")
        return {}, [*problems, f"no NVIDIA device in {quoted(first)}" if first else "it is empty"]
    gpus = [one for one in found.values() if one["class"] in GPU]
    switches = [one for one in found.values() if one["class"] == NVSWITCH]
    return {
        "gpus": gpus,
        "nvswitches": switches,
        "devices": len(found),
        "listed_devices": listed,
        "part": part,
    }, problems


def _read(bus: str, rest: str, problems: list[str]) -> dict[str, Any] | None:
    """Parse one NVIDIA device; None for another vendor's, and for one that is not understood."""
    numbers = _NUMBERS.match(rest) or _IN_BRACKETS.search(rest)
    if numbers:
        vendor, kind, device = (numbers[name].lower() for name in ("vendor", "kind", "device"))
    else:
        vendor = _NVIDIA if re.search(r"\bNVIDIA\b", rest, re.IGNORECASE) else ""
        kind = next((number for words, number in _WORDS if rest.startswith(words)), "")
        device = None
    if vendor != _NVIDIA:
        return None
    address = read_bus(bus if bus.count(":") > 1 else f"0000:{bus}")
    if address is None:
        problems.append(f"an address is not understood: {quoted(bus)}")
        return None
    one: dict[str, Any] = {"bus": address, "class": kind, "device": device}
    if _GONE.search(rest):
        one["gone"] = True
    return one


def short(bus: str) -> str:
    """Format an address as lspci and the kernel print it: 00000000:5F:00.0 becomes 0000:5f:00.0."""
    return bus[4:].lower() if len(bus) == 16 and bus.startswith("0000") else bus.lower()
