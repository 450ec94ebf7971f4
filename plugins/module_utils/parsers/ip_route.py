# SPDX-License-Identifier: Apache-2.0
"""Parses `ip -j route get`: where the kernel would send packets."""

from __future__ import annotations

import json
import re
from typing import Any

_FAILED = re.compile(r"^Command failed -:(?P<line>\d+)")


def batch(pairs: list[tuple[str, str]]) -> str:
    """The queries for `ip -batch`: the route to each destination from each source."""
    return "".join(f"route get {destination} from {source}\n" for source, destination in pairs)


def parse_routes(stdout: str, stderr: str = "") -> tuple[dict[tuple[str, str], dict[str, Any]], dict[int, str]]:
    """Parse the routes by (source, destination), and the errors by the number of their query, counted from 0.

    `ip` prints one list for each query it could answer, one after the other.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    decoder, rest = json.JSONDecoder(), stdout.lstrip()
    while rest:
        try:
            listed, end = decoder.raw_decode(rest)
        except ValueError:
            break
        for entry in listed if isinstance(listed, list) else []:
            if isinstance(entry, dict) and entry.get("dst"):
                way = {"dev": entry.get("dev"), "gateway": entry.get("gateway"), "type": entry.get("type")}
                found[(str(entry.get("from") or entry.get("prefsrc") or ""), str(entry["dst"]))] = way
        rest = rest[end:].lstrip()
    complaints: dict[int, str] = {}
    said = "no answer"
    for line in stderr.splitlines():
        failed = _FAILED.match(line.strip())
        if failed:
            complaints[int(failed["line"]) - 1] = said
        elif line.strip():
            said = line.strip().removeprefix("RTNETLINK answers: ")[:120]
    return found, complaints
