# SPDX-License-Identifier: Apache-2.0
"""Environment and options for non-interactive apt calls, and a summary of apt's errors."""

from __future__ import annotations

from ..host import Result
from ..parsers.apt import parse_complaints, parse_unmet

QUIET = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l", "APT_LISTCHANGES_FRONTEND": "none"}
ASK_NOTHING = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")


def reasons(result: Result) -> str:
    """Summarise apt's error messages in one line."""
    said = parse_unmet(result.stdout)[:2] + parse_complaints(f"{result.stdout}\n{result.stderr}")
    return "; ".join(said[:4]).rstrip(".") if said and not result.problem else result.summary
