# SPDX-License-Identifier: Apache-2.0
"""What the parts of the burn-in workload share."""

from __future__ import annotations


def one_line(error: object) -> str:
    """An error for a message: without line breaks, and without an end that nobody reads."""
    return " ".join(str(error).split())[:300] or type(error).__name__
