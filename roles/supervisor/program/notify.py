# SPDX-License-Identifier: Apache-2.0
"""What the supervisor tells systemd, and its lines in the journal."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Mapping

LINE = 2000
"""Characters of a line in the journal; what a unit said last may be far longer."""
STATUS = 400
REPEAT_SECONDS = 60.0
"""Between two lines of the same subject."""

PLAIN, WARNING, ERROR = 6, 4, 3
"""The priorities of syslog, which systemd reads in front of a line."""


class Systemd:
    """The socket on which systemd listens; without one, as when run by hand, nothing is told."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        microseconds = environment.get("WATCHDOG_USEC", "")
        own = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog = int(microseconds) / 1e6 if own and microseconds.isdecimal() else 0.0
        """Seconds within which systemd wants to hear of us; 0 when it does not."""
        self._told = ""

    def ready(self) -> None:
        self._send("READY=1")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """The line that `systemctl status` shows; the same line is told once."""
        line = one_line(text, STATUS)
        if line != self._told:
            self._told = line
            self._send(f"STATUS={line}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        # A systemd that is itself in trouble must not take the supervisor down.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(message.encode(), address)


class Talk:
    """Whether there is something to say of what is looked at all the time.

    Another subject is news at once. The same one in other words, as amounts of memory change with every look, is so
    only after a while: somebody may be waited for over days.
    """

    def __init__(self) -> None:
        self._subject: object = None
        self._words = ""
        self._at = float("-inf")

    def is_news(self, now: float, subject: object, words: str) -> bool:
        if words == self._words or (subject == self._subject and now - self._at < REPEAT_SECONDS):
            return False
        self._subject, self._words, self._at = subject, words, now
        return True


class Allowance:
    """How many lines others may cause: so many of one name at once, and no more of it for a while."""

    def __init__(self, most: int = 10, seconds: float = REPEAT_SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._told: dict[str, deque[float]] = {}

    def take(self, now: float, name: str) -> bool:
        """Whether one more may be said of this name; names are of the plan, so they are few."""
        told = self._told.setdefault(name, deque(maxlen=self._most))
        if len(told) == self._most and now - told[0] < self._seconds:
            return False
        told.append(now)
        return True


def say(text: str, priority: int = PLAIN) -> None:
    """One line for the journal."""
    # Past Python's buffers, and given up where it does not go through: a journal that hangs must not stop the loop.
    with contextlib.suppress(OSError):
        os.write(1, f"<{priority}>{one_line(text, LINE)}\n".encode())


def one_line(text: str, most: int) -> str:
    """The text without line breaks and control characters, cut where it is too long."""
    line = "".join(character if character.isprintable() else " " for character in text).strip()
    return line if len(line) <= most else f"{line[: most - 3]}..."
