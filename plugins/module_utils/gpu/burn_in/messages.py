# SPDX-License-Identifier: Apache-2.0
"""Helpers shared by the parts of the burn-in workload."""

from __future__ import annotations


def one_line(error: object) -> str:
    """Format an error for a message: without line breaks, and truncated."""
    return " ".join(str(error).split())[:300] or type(error).__name__
