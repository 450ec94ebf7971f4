# SPDX-License-Identifier: Apache-2.0
"""Runs a command and tells what it took on this machine: time, processors, and memory of all its processes together."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tests.e2e.support import RECAP

BEAT = 2.0


@dataclass(frozen=True)
class Measured:
    """A command that has ended."""

    status: int
    output: str
    seconds: float
    cpu: float  # of the command and all it started and waited for
    memory: float  # at its peak, in MiB, what processes share counted once


def measured(argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float) -> Measured:
    """Run it in a session of its own, so that all of it can be ended."""
    used, began = _cpu(), monotonic()
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    peaks, ended = [0], threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks, ended))
    watcher.start()
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # all of it: what it started would hold the lab
        output, _ = process.communicate()
        output += f"\nkilled after {timeout:.0f} s"
    finally:
        ended.set()
        watcher.join()
    return Measured(process.returncode, output, monotonic() - began, _cpu() - used, max(peaks) / 1024)


def changed_hosts(run: Measured, hosts: int) -> int:
    """How many of these hosts a playbook changed, by its recap: a line per host, or a sentence where there are many."""
    assert run.status == 0, run.output[-6000:]
    sentence = re.search(r"^All (\d+) hosts came through: \d+ unchanged, (\d+) changed", run.output, re.MULTILINE)
    if sentence:
        assert int(sentence[1]) == hosts
        return int(sentence[2])
    counted = [int(match[3]) for match in RECAP.finditer(run.output)]
    assert len(counted) == hosts, run.output[-6000:]
    return sum(changed > 0 for changed in counted)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watch(process: int, peaks: list[int], ended: threading.Event) -> None:
    while not ended.wait(BEAT):
        peaks.append(sum(map(_proportional, _tree(process))))


def _tree(process: int) -> list[int]:
    """A process and all below it. The connections that ssh keeps belong to nobody any more, and are a megabyte each."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(directory.name))
    found, waiting = [], [process]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def _proportional(process: int) -> int:
    """KiB of a process, where pages that several have are shared out among them."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
