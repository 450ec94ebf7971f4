# SPDX-License-Identifier: Apache-2.0
"""What several messages and checks need: amounts as people say them, the lines a tool said, names and addresses."""

from __future__ import annotations

import ipaddress


def gigabytes(count: float) -> str:
    """For messages, in the unit disks are sold in."""
    return f"{count / 1e9:.1f} GB"


def said_lines(text: str) -> list[str]:
    """The lines of a tool's output that say something."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def is_hexadecimal(text: str, length: int) -> bool:
    """Whether this is a digest or commit of so many digits, as tools write them: in lower case."""
    return len(text) == length and not text.strip("0123456789abcdef")


def is_address(text: object) -> bool:
    """Whether this is the text of an IP address, not a name."""
    try:
        ipaddress.ip_address(text if isinstance(text, str) else "")
    except ValueError:
        return False
    return True
