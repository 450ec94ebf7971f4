# SPDX-License-Identifier: Apache-2.0
"""Parses `ray status`: nodes, their resources, what is in use, and what waits for more."""

from __future__ import annotations

import re
from typing import Any

from .captures import capture_lines

_TITLE = re.compile(r"^\s*=+\s*(?:Autoscaler|Cluster) status:?\s*(?P<time>[\d][\d:. T+-]*)?", re.IGNORECASE)
_LEAD = re.compile(r"^(?P<lead>[ \t]*(?:# ?)?)(?==+\s*(?:Autoscaler|Cluster) status)", re.IGNORECASE)
"""The prefix that a page put in front of every line."""
_HEADING = re.compile(r"^(?P<name>[A-Z][\w() ]*?):\s*$")
_NODE_DETAIL = re.compile(r"^\s*Node:\s+\S")
_NODE = re.compile(r"^\s+(?P<count>\d{1,6})\s+(?P<name>\S.*)$")
_AMOUNT = re.compile(
    r"^\s+(?P<used>\d[\d.]*(?:e[+-]?\d+)?)\s*(?P<used_unit>[KMGTP]?i?B)?\s*/\s*"
    r"(?P<total>\d[\d.]*(?:e[+-]?\d+)?)\s*(?P<unit>[KMGTP]?i?B)?\s+(?P<name>[A-Za-z_][\w:.-]*)",
)
_NONE = {
    "active": re.compile(r"^\s*\(no .*nodes\)\s*$", re.IGNORECASE),
    "idle": re.compile(r"^\s*\(no .*nodes\)\s*$", re.IGNORECASE),
    "pending": re.compile(r"^\s*\(no pending nodes\)\s*$", re.IGNORECASE),
    "failures": re.compile(r"^\s*\(no (?:recent )?failures\)\s*$", re.IGNORECASE),
    "resources": re.compile(r"^\s*\(no .*(?:usage|resources)\)\s*$", re.IGNORECASE),
    "demands": re.compile(r"^\s*\(no (?:pending |resource )?demands\)\s*$", re.IGNORECASE),
    "requested": re.compile(r"^\s*\((?:none|no .*)\)\s*$", re.IGNORECASE),
}
"""What each section prints if it has nothing to list; the text of another section means that lines were lost."""
_RULE = re.compile(r"^\s*[-=]{3,}\s*$")
_TROUBLE = re.compile(
    r"could not find any running ray instance|ray cluster is not found|failed to connect to (?:gcs|ray|the)|"
    r"ray: (?:command )?not found|no such (?:container|file or directory.*ray)|is not running|"
    r"(?:un)?authenticat\w* (?:failed|error)|invalid (?:auth\w* )?token|connection refused|deadline exceeded",
    re.IGNORECASE,
)
_NOT_YET = re.compile(r"no cluster status\b|it may take a few seconds", re.IGNORECASE)

_SECTIONS = {
    "healthy": "active",
    "active": "active",
    "idle": "idle",
    "pending": "pending",
    "recent failures": "failures",
    "failures": "failures",
    "usage": "resources",
    "total usage": "resources",
    "demands": "demands",
    "pending demands": "demands",
    "total demands": "demands",
    "constraints": "requested",
    "total constraints": "requested",
    "from request_resources": "requested",
}
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


def parse_ray_status(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse into (data, problems). `data` has only the sections that the text has:

        time, active [{"name", "count"}], idle [same], pending [lines], failures [lines],
        resources {"GPU": {"used", "total"}, ...} (memory in bytes), demands [lines], requested [lines], nodes (count),
        trouble [lines that say that Ray does not answer], starting (bool)

    An empty list is a section that states that there is none, or, with a problem, one whose lines were not understood;
    a section cut off after its heading is absent.
    """
    data: dict[str, Any] = {}
    problems: list[str] = []
    section = lead = ""
    for raw in capture_lines(text):
        begins = _LEAD.match(raw)
        lead = begins["lead"] if begins else lead
        line = raw.removeprefix(lead)
        if not line.strip() or line.strip() == lead.strip() or _RULE.match(line):
            continue
        title = _TITLE.match(line)
        if title:
            if data:  # printed again, as by `watch`: the last one counts
                data, problems = {}, []
            data["time"] = (title["time"] or "").strip() or None
            section = ""
        elif _NODE_DETAIL.match(line):
            section = "detail"  # the totals already include what -v adds for each node
        elif section != "detail" and (heading := _HEADING.match(line)):
            section = _SECTIONS.get(heading["name"].strip().lower(), "")
        elif section and section != "detail":
            _add(data, problems, section, line)
        elif _TROUBLE.search(line):
            data.setdefault("trouble", []).append(line.strip())
        elif _NOT_YET.search(line):
            data["starting"] = True
    if "active" in data or "idle" in data:
        data["nodes"] = sum(one["count"] for one in [*data.get("active", []), *data.get("idle", [])])
    if not data:
        first = next((line for line in capture_lines(text) if line.strip()), "")
        problems.append(f"no Ray status in {first.strip()[:160]!r}" if first else "the text is empty")
    return data, problems


def _add(data: dict[str, Any], problems: list[str], section: str, line: str) -> None:
    """Parse one line of a section; among nodes and resources, a line of unknown form is a problem."""
    if not line[0].isspace():
        if _TROUBLE.search(line):
            data.setdefault("trouble", []).append(line.strip())
        return
    if section in ("active", "idle"):
        listed = data.setdefault(section, [])
        found = _NODE.match(line)
        if found:
            listed.append({"name": found["name"].strip(), "count": int(found["count"])})
        elif not _NONE[section].match(line):
            problems.append(f"{section}: {line.strip()[:160]!r} has no number of nodes")
    elif section == "resources":
        amounts = data.setdefault("resources", {})
        found = _AMOUNT.match(line)
        # Until 2.3 only the total had a unit.
        values = (
            (_amount(found["used"], found["used_unit"] or found["unit"]), _amount(found["total"], found["unit"]))
            if found
            else None
        )
        if found and values and None not in values:
            amounts[found["name"]] = {"used": values[0], "total": values[1]}
        elif not _NONE[section].match(line):
            problems.append(f"resources: {line.strip()[:160]!r} is not an amount")
    else:
        listed = data.setdefault(section, [])
        if section == "demands" and line.rstrip().endswith("from request_resources()"):
            data.setdefault("requested", []).append(line.strip())  # a standing request, not a waiting one
        elif not _NONE[section].match(line):
            listed.append(line.strip())


def _amount(value: str, unit: str | None) -> float | int | None:
    try:
        number = float(value)
    except ValueError:
        return None
    scaled = number * _UNITS.get((unit or "")[:1], 1)
    return int(scaled) if scaled % 1 == 0 else round(scaled, 3)
