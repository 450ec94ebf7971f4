# SPDX-License-Identifier: Apache-2.0
"""Exit statuses and exceptions of the commands. A message says what was found, what was expected, and what to do."""

from __future__ import annotations

DONE = 0
"""Done, and everything is as expected."""
FAILED = 1
"""Something failed or has a fault: a check, a host, a server, the network."""
REFUSED = 2
"""Nothing was done: options, a file or an inventory cannot be used, the plan is refused, the model does not fit."""
OPEN = 3
"""No fault is known, but a host or a check could not be queried."""
INTERRUPTED = 130
"""Interrupted by Ctrl-C or SIGTERM, following the shell convention."""


class FirstlightError(Exception):
    """An error whose message is shown to the operator as it is, without a traceback."""

    status = FAILED


class UsageError(FirstlightError):
    """Invalid input. `usage` is the usage line of the command, if the arguments are the problem."""

    status = REFUSED

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage
