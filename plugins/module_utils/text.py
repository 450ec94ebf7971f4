# SPDX-License-Identifier: Apache-2.0
"""Helpers for messages and checks: amounts, lines of tool output, digests and addresses."""

from __future__ import annotations

import ipaddress


def gigabytes(count: float) -> str:
    """Format bytes for messages, in decimal gigabytes like disks."""
    return f"{count / 1e9:.1f} GB"


def said_lines(text: str) -> list[str]:
    """Return the non-empty lines of a tool's output."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def is_hexadecimal(text: str, length: int) -> bool:
    """Whether this is a digest or commit with this number of digits, in lower case as tools print them."""
    return len(text) == length and not text.strip("0123456789abcdef")


def is_address(text: object) -> bool:
    """Whether this is the text of an IP address, not a name."""
    try:
        ipaddress.ip_address(text if isinstance(text, str) else "")
    except ValueError:
        return False
    return True
