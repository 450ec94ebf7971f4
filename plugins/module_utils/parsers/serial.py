# SPDX-License-Identifier: Apache-2.0
"""Parses the serial number that a machine's firmware shows."""

from __future__ import annotations

import re

_NONE = re.compile(
    r"|none|n/?a|unknown|default string|not (?:specified|applicable|available)|to be filled.*|system serial number"
    r"|0+|x+|0?123456789.*|chassis serial.*",
    re.IGNORECASE,
)

_LONGEST = 120


def parse_serial(text: str | None) -> str | None:
    """Return the serial number; None if it is unusable or a firmware placeholder, which many machines share."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    line = lines[0] if lines else ""
    return None if _NONE.fullmatch(line) or len(line) > _LONGEST or not line.isprintable() else line
