# SPDX-License-Identifier: Apache-2.0
"""Run parts of the test suite side by side, and say at the end what ran, how long it took and what failed.

`python -m tests.suite.run test` is `make test`; `python -m tests.suite.run all --slice 1/4` is a quarter of everything.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.suite import events, parts, times
from tests.suite.footprint import machine_footprint, new_since
from tests.suite.parts import CHECKOUT, Part

BUILD = CHECKOUT / "build"
LOGS = BUILD / "test-logs"
SIDE_BY_SIDE = 3
"""Parts with labs at a time on two processors: nodes that boot and services that start leave processors idle."""
TAIL_LINES = 400
SHOWN = ("scenario", "engine start")
SLOW_TEST_SECONDS = 5.0
GRACE_SECONDS = 300.0
"""For a part that was interrupted to take its labs down."""


@dataclass
class Running:
    """A part that has been started."""

    part: Part
    argv: list[str]
    log: Path
    events_file: Path
    began: float = field(default_factory=time.monotonic)
    seen: list[events.Event] = field(default_factory=list)
    offset: int = 0
    process: subprocess.Popen[bytes] | None = None
    output: IO[bytes] | None = None

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.events_file.unlink(missing_ok=True)
        self.output = self.log.open("wb")
        self.process = subprocess.Popen(
            self.argv,
            cwd=CHECKOUT,
            env={**os.environ, events.FILE: str(self.events_file), events.PART: self.part.name},
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def has_ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def result(self) -> times.PartResult:
        """What came of it, after its last news."""
        assert self.process is not None
        assert self.output is not None
        self.output.close()
        status = self.process.returncode
        if status == 0 and "pytest" in self.argv and not self.seen:
            status = 5  # a part without a test is a mistake in the list of parts
        return times.PartResult(self.part.name, round(time.monotonic() - self.began, 1), status, self.seen)

    def news(self) -> list[events.Event]:
        found, self.offset = events.read(self.events_file, self.offset)
        self.seen += found
        return found

    def interrupt(self) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)


class Runner:
    """Starts parts while there is room, prints what ends, and keeps the results."""

    def __init__(self, members: list[Part], suite: str, side_by_side: int, extra: list[str]) -> None:
        self.waiting = members
        self.suite, self.side_by_side, self.extra = suite, side_by_side, extra
        self.running: list[Running] = []
        self.results: list[times.PartResult] = []
        self.began = time.monotonic()

    def say(self, part: str, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.0f} s] {part:18} {text}", flush=True)

    def run(self) -> list[times.PartResult]:
        try:
            while self.waiting or self.running:
                self._start_what_fits()
                time.sleep(0.5)
                self._collect()
        except KeyboardInterrupt:
            for one in self.running:
                self.say(one.part.name, "interrupted: waits until its labs are down")
                one.interrupt()
            raise
        return self.results

    def _start_what_fits(self) -> None:
        for part in list(self.waiting):
            waits = not part.first and any(one.part.first for one in self.running)
            if not waits and len(self.running) < self.side_by_side:
                argv = part.argv(self.suite, self.extra)
                one = Running(part, argv, LOGS / f"{part.name}.log", LOGS / f"{part.name}.events")
                one.start()
                self.running.append(one)
                self.waiting.remove(part)
                self.say(part.name, "starts")

    def _collect(self) -> None:
        for one in list(self.running):
            ended = one.has_ended()  # asked first: what it noted at its very end is news, too
            for event in one.news():
                if event.outcome == "failed" or event.kind in SHOWN or event.seconds >= SLOW_TEST_SECONDS:
                    self.say(one.part.name, f"{event.outcome} in {event.seconds:.0f} s: {event.kind} {event.name}")
            if not ended:
                continue
            result = one.result()
            self.running.remove(one)
            self.results.append(result)
            self.say(one.part.name, f"{'PASSED' if result.status == 0 else 'FAILED'} in {result.seconds:.0f} s")
            if result.status != 0:
                lines = one.log.read_text(encoding="utf-8", errors="replace").splitlines()
                print(f"--- the end of {one.log.relative_to(CHECKOUT)}")
                print("\n".join(lines[-TAIL_LINES:]))
                print(f"--- {one.part.name} ended with status {result.status}", flush=True)


def leftovers(before: dict[str, list[str]]) -> times.PartResult:
    """Whether the labs have left anything on this machine."""
    began = time.monotonic()
    left = new_since(before, machine_footprint())
    for kind, names in left.items():
        print(f"left behind, {kind}: {', '.join(names)}")
    event = events.Event("test", "nothing is left on the machine", 0.0, "failed" if left else "passed")
    return times.PartResult("leftovers", round(time.monotonic() - began, 1), 1 if left else 0, [event])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=["test", "all"], help="test: what every change runs; all: everything")
    parser.add_argument("--slice", default="", metavar="N/COUNT", help="one slice of all (default: all slices)")
    parser.add_argument("--only", nargs="+", default=[], metavar="PART", help="these parts only (default: all)")
    parser.add_argument("--side-by-side", type=int, default=SIDE_BY_SIDE, help="parts at a time (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="list the parts and exit")
    parser.add_argument("--pytest-args", default="", help="further arguments of pytest")
    arguments = parser.parse_args()
    try:
        members = parts.chosen(parts.load(), arguments.suite, arguments.slice, arguments.only)
    except ValueError as error:
        parser.error(str(error))
    if arguments.list:
        for part in members:
            print(f"{part.name:20} {part.minutes:5.1f} min  {' '.join(part.argv(arguments.suite))}")
        return 0
    # Also where a shell has started this in the background, with interrupts ignored: parts inherit that.
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, signal.default_int_handler)
    before = machine_footprint()
    clock = times.MachineClock()
    runner = Runner(members, arguments.suite, arguments.side_by_side, arguments.pytest_args.split())
    results = [*runner.run(), leftovers(before)]
    run = times.Run(arguments.suite, arguments.slice, round(clock.seconds(), 1), clock.busy(), results)
    path = times.write(run, BUILD)
    print("\n".join(times.summary(run)))
    print(f"durations: {path.relative_to(CHECKOUT)}; make test-times shows them")
    passed, failed = times.counts(run)
    print(f"{passed} passed, {failed} failed")
    return 0 if all(result.status == 0 for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
