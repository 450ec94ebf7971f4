# SPDX-License-Identifier: Apache-2.0
"""Parses network and RDMA ports as `ibstat`, `ibdev2netdev`, `rdma link`, `ethtool` and the like show them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..fabric.read_checks import name_of
from ..fabric.read_rows import FIELDS, Row, pci_path, read_rows
from ..parsers.captures import capture_lines, sections
from ..parsers.reading import quoted

_COUNT = re.compile(r"^\s*(?:Number of ports|phys_port_cnt)\s*:\s*(?P<count>\d{1,3})\s*$", re.IGNORECASE)
_PORT = re.compile(r"^\s*port\s*:?\s*\d{1,3}\s*:?\s*$", re.IGNORECASE)
_ARROW = re.compile(r"\bport\b.*=+>|=+>\s*\S+\s+\((?:up|down)", re.IGNORECASE)
_LINK = re.compile(r"^\s*(?:link\s+|\d+/\d+:\s*)\S+/\d+:?(?:\s|$)", re.IGNORECASE)
_PANIC = re.compile(r"^\s*(?:ibpanic|ibwarn)\s*:", re.IGNORECASE)
"""What ibstat prints about a device that it could not query, after those that it could."""


def parse_ports(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse ports: {"ports": one row per port, "tools": those recognised}, and what was not understood."""
    rows, tools, remarks = read_rows([text])
    if not rows:
        first = next((line for line in capture_lines(text) if line.strip() and not line.startswith("# source")), "")
        return {}, [f"no port in {quoted(first)}" if first else "the text is empty"]
    problems = [*remarks, *_cut_short(text, rows)]
    panics = [line for line in capture_lines(text) if _PANIC.match(line)]
    problems += [f"the list is cut off by an error: {quoted(line)}" for line in panics]
    for name, values in _values(text, rows):
        problems.append(f"{name}: {values}")
    return {"ports": rows, "tools": tools}, problems


def _cut_short(text: str, rows: Iterable[Row]) -> Iterator[str]:
    """Report devices that have more ports than are shown, and lines of a list that name no port."""
    listed = {(row["device"], row["port"]) for row in rows}
    for section in sections(text):
        counts = [int(found["count"]) for line in section.lines if (found := _COUNT.match(line))]
        shown = sum(1 for line in section.lines if _PORT.match(line))
        if section.device and counts and shown < counts[0]:
            yield f"{section.device}: {shown} of {counts[0]} ports shown, the text is cut off"
    arrows = [line for line in capture_lines(text) if _ARROW.search(line) or _LINK.match(line)]
    if len(arrows) > len(listed) > 0 and len({_first_word(line) for line in arrows}) > len(listed):
        named = {str(device) for device, _ in listed}
        odd = next((line for line in arrows if not any(name in line for name in named)), "")
        if odd:
            yield f"not understood: {quoted(odd)}"


def _first_word(line: str) -> str:
    words = line.split()
    return words[1] if len(words) > 1 and words[0].lower() == "link" else words[0]


def _values(text: str, rows: Iterable[Row]) -> Iterator[tuple[str, str]]:
    """Report ports without rate and link layer in the output of a tool that prints them for every port."""
    tells = any(section.tool in ("ibstat", "ibstatus") for section in sections(text))
    for row in rows:
        if tells and row["device"] and row["state"] and row["link_layer"] is None and row["rate_gbit"] is None:
            yield name_of(row), "neither rate nor link layer is shown, the text is cut off"


def merged_rows(lists: Iterable[Iterable[Mapping[str, Any]]]) -> tuple[list[Row], list[str]]:
    """Merge several readings of one host into one row per port, and list the values that conflict."""
    rows: list[Row] = []
    conflicts: list[str] = []
    for own in lists:
        before = list(rows)
        for told in own:
            known = next((row for row in before if _same(row, told)), None)
            if known is None:
                rows.append(dict(told))
            else:
                conflicts += _fill(known, told)
    return rows, conflicts


def _same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if row["netdev"] and other["netdev"]:
        return bool(row["netdev"] == other["netdev"])
    if row["device"] and other["device"]:
        return (row["device"], row["port"] or 1) == (other["device"], other["port"] or 1)
    path = pci_path(row["netdev"]) or pci_path(row["device"])
    return path is not None and path == (pci_path(other["netdev"]) or pci_path(other["device"]))


def _fill(row: Row, told: Mapping[str, Any]) -> Iterator[str]:
    for name in FIELDS:
        if row.get(name) is None:
            row[name] = told.get(name)
        elif name in ("state", "link", "speed_mbit") and told.get(name) not in (None, row[name]):
            yield f"{name_of(row)}: {name.replace('_', ' ')} is {row[name]} in one and {told[name]} in another"
