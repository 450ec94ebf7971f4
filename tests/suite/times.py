# SPDX-License-Identifier: Apache-2.0
"""Where the minutes of a run went: JSON in build/test-times, shown beside the run before by `make test-times`."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.suite.events import Event

DIRECTORY = "test-times"
MESSAGE_LINES = 12
KEPT = 20
"""Runs whose durations stay in build/."""


@dataclass(frozen=True)
class PartResult:
    """A part that has ended, and everything that was timed in it."""

    name: str
    seconds: float
    status: int
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """One run of the suite."""

    suite: str
    slice: str
    seconds: float
    busy: float
    """The part of the processors' time that was used while it ran, by anybody on the machine."""
    parts: list[PartResult]


class MachineClock:
    """Wall time, and how busy the processors were meanwhile."""

    def __init__(self) -> None:
        self._began, self._before = time.monotonic(), _processor_times()

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def busy(self) -> float:
        used, total = (now - then for now, then in zip(_processor_times(), self._before, strict=True))
        return round(used / total, 2) if total else 0.0


def _processor_times() -> tuple[int, int]:
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def write(run: Run, build: Path) -> Path:
    """Keep a run's durations, and no more than the last few."""
    directory = build / DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    stamp = datetime.datetime.now(tz=datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    path = directory / f"{stamp}-{run.suite}{'-' + run.slice.replace('/', 'of') if run.slice else ''}.json"
    path.write_text(json.dumps(asdict(run), indent=1) + "\n", encoding="utf-8")
    for old in sorted(directory.glob("*.json"))[:-KEPT]:
        old.unlink()
    return path


def read(path: Path) -> Run:
    """A run as it was written."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found = [
        PartResult(one["name"], one["seconds"], one["status"], [Event(**event) for event in one["events"]])
        for one in document.pop("parts")
    ]
    return Run(**document, parts=found)


def counts(run: Run) -> tuple[int, int]:
    """How many tests and scenarios passed and failed; a part that failed without a failed test counts as one."""
    passed = failed = 0
    for part in run.parts:
        evaluated = [event.outcome for event in part.events if event.kind in ("test", "scenario")]
        wrong = sum(outcome == "failed" for outcome in evaluated)
        passed += len(evaluated) - wrong
        if part.events == [] and part.status == 0:
            passed += 1
        failed += max(wrong, 1 if part.status != 0 else 0)
    return passed, failed


def summary(run: Run) -> list[str]:
    """The table at the end of a run."""
    lines = ["", f"{'part':20} {'result':8} {'minutes':>8} {'tests':>6} {'failed':>7}"]
    for part in sorted(run.parts, key=lambda part: -part.seconds):
        evaluated = [event.outcome for event in part.events if event.kind in ("test", "scenario")]
        result = "passed" if part.status == 0 else "FAILED"
        lines.append(
            f"{part.name:20} {result:8} {part.seconds / 60:8.1f} {len(evaluated):6} {evaluated.count('failed'):7}"
        )
    for part in run.parts:
        for event in part.events:
            if event.outcome == "failed":
                lines.append(f"failed: {part.name}: {event.name}")
                lines += [f"    {line}" for line in event.message.splitlines()[:MESSAGE_LINES]]
    what = f"{run.suite} {run.slice}".strip()
    lines.append(f"{what}: {run.seconds / 60:.1f} minutes, processors {run.busy:.0%} busy")
    return lines


def comparison(run: Run, before: Run | None, most: int) -> list[str]:
    """The slowest of a run, each beside what it took the time before."""
    earlier = {
        (part.name, event.kind, event.name): event.seconds
        for part in (before.parts if before else [])
        for event in part.events
    }
    rows = sorted(
        ((event.seconds, part.name, event) for part in run.parts for event in part.events if event.kind != "scenario"),
        key=lambda row: (-row[0], row[1], row[2].name),
    )
    lines = [f"{'seconds':>8} {'before':>8}  part: what"]
    for seconds, part, event in rows[:most]:
        then = earlier.get((part, event.kind, event.name))
        shown = "-" if then is None else f"{then:.1f}"
        lines.append(f"{seconds:8.1f} {shown:>8}  {part}: {event.kind} {event.name}")
    return lines


def latest(build: Path) -> tuple[Run, Run | None] | None:
    """The last run, and the one before it of the same suite and slice."""
    paths = sorted((build / DIRECTORY).glob("*.json"))
    if not paths:
        return None
    runs = [read(path) for path in paths]
    same = [run for run in runs[:-1] if (run.suite, run.slice) == (runs[-1].suite, runs[-1].slice)]
    return runs[-1], same[-1] if same else None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build"), help="where runs are kept (default: build)")
    parser.add_argument("--most", type=int, default=40, help="rows shown (default: 40)")
    arguments = parser.parse_args(argv)
    found = latest(arguments.build)
    if found is None:
        print(f"No run is recorded in {arguments.build / DIRECTORY}; make test records one.", file=sys.stderr)
        return 1
    run, before = found
    print("\n".join([*summary(run), "", *comparison(run, before, arguments.most)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
