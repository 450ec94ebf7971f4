# SPDX-License-Identifier: Apache-2.0
"""The supervisor's notifications to systemd, and its lines in the journal."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Mapping

LINE = 2000
"""The most characters of a line in the journal; the last line of a unit may be far longer."""
STATUS = 400
REPEAT_SECONDS = 60.0
"""The least interval between two lines about the same subject."""

PLAIN, WARNING, ERROR = 6, 4, 3
"""Syslog priorities, which systemd parses at the start of a line."""


class Systemd:
    """The notification socket of systemd; without one, as when run by hand, nothing is sent."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        microseconds = environment.get("WATCHDOG_USEC", "")
        own = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog = int(microseconds) / 1e6 if own and microseconds.isdecimal() else 0.0
        """The watchdog interval of systemd in seconds; 0 without a watchdog."""
        self._told = ""

    def ready(self) -> None:
        self._send("READY=1")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """Set the line that `systemctl status` shows; an unchanged line is not sent again."""
        line = one_line(text, STATUS)
        if line != self._told:
            self._told = line
            self._send(f"STATUS={line}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        # If systemd itself is in trouble, that must not take the supervisor down.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(message.encode(), address)


class Talk:
    """Decides whether a repeated observation is worth a log line.

    A new subject is logged at once. The same subject with a new text, as amounts of memory change all the time, is
    logged only after a while: a group may wait for a node for days.
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
    """A rate limit on log lines that others cause: so many per name within an interval."""

    def __init__(self, most: int = 10, seconds: float = REPEAT_SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._told: dict[str, deque[float]] = {}

    def take(self, now: float, name: str) -> bool:
        """Whether one more line may be logged for this name; names are those of the plan, so there are few."""
        told = self._told.setdefault(name, deque(maxlen=self._most))
        if len(told) == self._most and now - told[0] < self._seconds:
            return False
        told.append(now)
        return True


def say(text: str, priority: int = PLAIN) -> None:
    """Write one line to the journal."""
    # Bypass Python's buffers, and drop the line if it cannot be written: a blocked journal must not stop the loop.
    with contextlib.suppress(OSError):
        os.write(1, f"<{priority}>{one_line(text, LINE)}\n".encode())


def one_line(text: str, most: int) -> str:
    """Return the text without line breaks and control characters, truncated if it is too long."""
    line = "".join(character if character.isprintable() else " " for character in text).strip()
    return line if len(line) <= most else f"{line[: most - 3]}..."
