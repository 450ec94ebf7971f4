# SPDX-License-Identifier: Apache-2.0
"""What a command exits with, and what it stops with: one message with what was found, expected, and what to do."""

from __future__ import annotations

DONE = 0
"""Done, and everything is right."""
FAILED = 1
"""Something failed or is wrong: a check, a host, a server, the network."""
REFUSED = 2
"""Nothing was done: options, a file or an inventory cannot be used, the plan is refused, the model does not fit."""
OPEN = 3
"""Nothing is known to be wrong, but something was left open: a host or a check that could not be asked."""
INTERRUPTED = 130
"""Ctrl-C or SIGTERM, as shells have it."""


class FirstlightError(Exception):
    """Shown to the operator as it is, without a traceback."""

    status = FAILED


class UsageError(FirstlightError):
    """What was given cannot be used as it is. `usage` is how the command is called, where that is the matter."""

    status = REFUSED

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage
