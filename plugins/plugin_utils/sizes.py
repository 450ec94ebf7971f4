# SPDX-License-Identifier: Apache-2.0
"""Numbers as engines' command lines take them: 8k is 8000, 8K is 8192, 64M is 64 x 1024 x 1024."""

from __future__ import annotations

import re
from decimal import Decimal

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([kKmMgGtT]?)")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def read_size(text: str) -> int | None:
    """The number, None where it is none: a small letter counts in thousands, a capital one in 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    base = 1000 if match[2].islower() else 1024
    return int(Decimal(match[1]) * base ** _POWERS[match[2].lower()])
