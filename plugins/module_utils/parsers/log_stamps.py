# SPDX-License-Identifier: Apache-2.0
"""Parses the timestamps of log lines in every form that dmesg, journalctl and syslog print."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_UPTIME = re.compile(r"^(?:<\d{1,3}>|kern\s*:\s*\w+\s*:\s*)?\s*\[?\s*(?P<seconds>\d{1,10}\.\d{1,6})(?:\s*<[^>]*>)?\]")
_KMSG = re.compile(r"^\d{1,4},\d{1,12},(?P<micro>\d{1,18}),[^;]{1,20};")
_ISO = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?\s?(?P<zone>Z|[+-]\d\d:?\d\d)?", re.ASCII
)
_CTIME = re.compile(
    r"(?P<month>[A-Z][a-z]{2})\s+(?P<day>\d{1,2})\s+(?P<time>\d\d:\d\d:\d\d)(?:\.\d{1,9})?(?:\s+(?P<year>\d{4}))?",
    re.ASCII,
)
_FRONT = 60
"""Leading characters of a line in which a timestamp must start."""


def stamp_seconds(line: str) -> tuple[str, float] | None:
    """The kind of clock and its seconds, comparable with others of the same kind; None without a timestamp.

    syslog omits the year: all its lines are then assumed to be of one year.
    """
    plain = line.strip()
    uptime = _UPTIME.match(plain)
    if uptime:
        return "uptime", float(uptime["seconds"])
    kmsg = _KMSG.match(plain)
    if kmsg:
        return "uptime", int(kmsg["micro"]) / 1e6
    front = plain[:_FRONT]
    iso = _ISO.search(front)
    if iso:
        zone = (iso["zone"] or "+00:00").replace("Z", "+00:00")
        zone = zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
        return _date(f"{iso['day']}T{iso['time']}{zone}")
    ctime = _CTIME.search(front)
    if ctime and ctime["month"].lower() in _MONTHS:
        month, year = _MONTHS.index(ctime["month"].lower()) + 1, int(ctime["year"] or 2000)
        return _date(f"{year:04d}-{month:02d}-{int(ctime['day']):02d}T{ctime['time']}+00:00")
    return None


def _date(text: str) -> tuple[str, float] | None:
    try:
        return "date", datetime.fromisoformat(text).astimezone(timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None


def stamp_text(line: str) -> str:
    """The timestamp as printed; empty without one."""
    plain = line.strip()
    found = _UPTIME.match(plain)
    if found:
        return f"{found['seconds']} s after boot"
    found = _ISO.search(plain[:_FRONT]) or _CTIME.search(plain[:_FRONT])
    return " ".join(found[0].split()) if found else ""
