# SPDX-License-Identifier: Apache-2.0
"""What a command stops with: one message that says what was found, what was expected and what to do."""

from __future__ import annotations


class FirstlightError(Exception):
    """Shown to the operator as it is, without a traceback."""
