# SPDX-License-Identifier: Apache-2.0
"""Assembles the page: all parts are read in parallel, and none of them can hold up the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .page import Family, gauge, rendered
from .reading import AbsentError, Read, ReadError

LONGEST = 7.0
"""Seconds after which a part still being read is reported as down; Prometheus waits ten for the page."""


@dataclass
class _Part:
    """One part, with its current reading."""

    read: Read
    good_for: float
    families: list[Family] = field(default_factory=list)
    up: bool = False
    absent: bool = False
    problem: str = ""
    seconds: float = 0.0
    read_at: float | None = None
    running: threading.Thread | None = None


class Pages:
    """Builds pages. A part that hangs is not restarted before it has ended: a dead driver costs one thread."""

    def __init__(
        self,
        parts: Mapping[str, tuple[Read, float]],
        say: Callable[[str], None],
        longest: float = LONGEST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = {name: _Part(read, good_for) for name, (read, good_for) in parts.items()}
        self._say, self._longest, self._clock = say, longest, clock
        self._lock = threading.Lock()

    def page(self) -> str | None:
        """Return the page, or None while the previous one is still being built."""
        if not self._lock.acquire(timeout=self._longest):
            return None
        try:
            return self._page()
        finally:
            self._lock.release()

    def _page(self) -> str:
        end = self._clock() + self._longest
        for name, part in self._parts.items():
            fresh = part.up and part.read_at is not None and self._clock() - part.read_at < part.good_for
            if not fresh and (part.running is None or not part.running.is_alive()):
                part.running = threading.Thread(target=self._read, args=(name, part), daemon=True)
                part.running.start()
        families: list[Family] = []
        up: dict[str, bool] = {}
        for name, part in self._parts.items():
            if part.running is not None:
                part.running.join(max(0.0, end - self._clock()))
            hangs = part.running is not None and part.running.is_alive()
            if hangs:
                self._told(name, part, f"it gave no answer within {self._longest:g} s")
            if part.absent and not hangs:
                continue
            up[name] = part.up and not hangs
            if up[name]:
                families += part.families
        return rendered([*self._own(up), *families])

    def _own(self, up: Mapping[str, bool]) -> list[Family]:
        return [
            gauge(
                "firstlight_source_up",
                "Whether a part of this page could be read.",
                [({"source": name}, float(one)) for name, one in up.items()],
            ),
            gauge(
                "firstlight_source_seconds",
                "How long the last read of a part took.",
                [({"source": name}, round(self._parts[name].seconds, 4)) for name in up],
            ),
        ]

    def _read(self, name: str, part: _Part) -> None:
        began = self._clock()
        problem, absent = "", False
        try:
            families = part.read()
        except AbsentError as error:
            families, problem, absent = [], str(error), True
        except (ReadError, ValueError) as error:
            families, problem = [], str(error)
        except Exception as error:  # noqa: BLE001 - a part that breaks in a way nobody thought of is dead, not the page
            families, problem = [], f"{type(error).__name__}: {error}"
        part.families, part.up, part.absent = families, not problem, absent
        part.read_at = self._clock()
        part.seconds = part.read_at - began
        self._told(name, part, problem)

    def _told(self, name: str, part: _Part, problem: str) -> None:
        """Log a problem once, and its end once."""
        if problem != part.problem:
            self._say(f"{name}: {problem or 'can be read again'}")
            part.problem = problem
