# SPDX-License-Identifier: Apache-2.0
"""Run long work in a separate process, so that its caller can poll its progress.

A module that copies for an hour prints nothing until it ends. Instead, the first call starts the work and returns;
later calls read the status file until it contains a result. The work continues if the connection breaks.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.host import process_started, write_file
from ansible_collections.firstlight.cluster.plugins.module_utils.transfer import Rate, progress
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import HubError, Meter

DIRECTORY = "/run/firstlight/jobs"
DIRECTORY_OF_USER = "/run/user/{}/firstlight-jobs"
"""The directory for users other than root: one that nobody else can write to."""

TICK = 0.5
UNWATCHED = 20.0
"""Seconds without polling after which a job counts as abandoned, and may be killed by the next run."""


class Job:
    """A job on this node, identified by its subject."""

    def __init__(self, subject: str, directory: str = "") -> None:
        self.subject = subject
        self._directory = directory or (DIRECTORY if os.geteuid() == 0 else DIRECTORY_OF_USER.format(os.geteuid()))
        self._status = os.path.join(self._directory, hashlib.sha256(subject.encode()).hexdigest()[:16] + ".json")
        self._watched = self._status.removesuffix(".json") + ".watched"

    def start(self, work: Callable[[Meter], dict[str, Any]]) -> None:
        """Start the work; an abandoned job of an earlier run is killed first."""
        self._make_way()
        self._watch()
        write_file(self._status, json.dumps({"asked_at": time.time()}), 0o600)
        middle = os.fork()
        if middle == 0:
            self._detach(work)
        os.waitpid(middle, 0)

    def wait(self, seconds: float) -> dict[str, Any]:
        """Return the result or, after `seconds`, the progress as {"unfinished": true, "progress": ...}."""
        end = time.monotonic() + seconds
        while True:
            self._watch()
            state = self._read()
            if state.get("result") is not None:
                for path in (self._status, self._watched):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
                return dict(state["result"])
            if not _goes_on(state):
                # It may have finished between the two checks.
                again = self._read()
                if again.get("result") is not None:
                    continue
                raise HubError(
                    f"the work on {self.subject} ended without a result, expected it to keep running: it was killed, "
                    f"the node restarted, or {self._directory} had no room for the result; run again, what was fetched "
                    "is kept and resumed"
                )
            if time.monotonic() >= end:
                return {"unfinished": True, "progress": state.get("progress") or {}}
            time.sleep(0.05)

    def _make_way(self) -> None:
        """Kill an abandoned job of an earlier run; raises HubError if a job is still being polled."""
        first, began = self._watched_at(), time.monotonic()
        while (process := self._read().get("process")) and _runs(process):
            seen = self._watched_at()
            waited = time.monotonic() - began
            if seen != first or waited > UNWATCHED + 5:
                raise HubError(
                    f"another run is still working on {self.subject}, expected only this one: wait for it to end, and "
                    "run again"
                )
            # If the clock was set back, the last poll cannot be dated; then it counts that nobody polls now.
            if time.time() - seen >= UNWATCHED or waited >= UNWATCHED:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process["pid"]), signal.SIGTERM)
            time.sleep(0.1)

    def _watch(self) -> None:
        # The directory is gone after a reboot; the caller must see that error, not the one of a missing file.
        os.makedirs(self._directory, mode=0o755, exist_ok=True)
        with open(self._watched, "w", encoding="utf-8"):
            pass
        os.utime(self._watched)

    def _watched_at(self) -> float:
        try:
            return os.stat(self._watched).st_mtime
        except FileNotFoundError:
            return 0.0

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._status, encoding="utf-8") as stream:
                state = json.load(stream)
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def _detach(self, work: Callable[[Meter], dict[str, Any]]) -> None:
        """In the child: leave the session and close the caller's pipes, as the caller would otherwise wait for it."""
        try:
            os.setsid()
            if os.fork() > 0:
                os._exit(0)
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
            self._run(work)
        finally:
            # Never return into the caller's program, whatever happened.
            os._exit(0)

    def _run(self, work: Callable[[Meter], dict[str, Any]]) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        meter, ended = Meter(), threading.Event()
        process = _identity(os.getpid())
        state: dict[str, Any] = {"process": process, "progress": {}}
        if not self._write(state):
            # Nobody could find, poll or kill this job.
            return
        teller = threading.Thread(target=self._tell, args=(meter, process, ended), daemon=True)
        teller.start()
        try:
            result = outcome(work, meter, self.subject)
        except Exception as error:  # noqa: BLE001 - the caller must get it; nobody else would
            result = {"failed": True, "msg": f"the work on {self.subject} failed: {error!r}"}
        ended.set()
        teller.join()
        self._write({**state, "result": result})

    def _tell(self, meter: Meter, process: dict[str, Any], ended: threading.Event) -> None:
        rate, doing = Rate(), ""
        while not ended.wait(TICK):
            if meter.doing != doing:
                rate, doing = Rate(), meter.doing
            speed = rate.at(time.monotonic(), meter.done)
            self._write({"process": process, "progress": progress(meter.doing, meter.done, meter.total, speed)})

    def _write(self, state: dict[str, Any]) -> bool:
        try:
            write_file(self._status, json.dumps(state), 0o600)
        except OSError:
            return False
        return True


def outcome(work: Callable[[Meter], dict[str, Any]], meter: Meter, subject: str) -> dict[str, Any]:
    """Return the work's result; errors become a failed result."""
    try:
        return work(meter)
    except (HubError, ValueError) as error:
        return {"failed": True, "msg": str(error)}
    except OSError as error:
        return {
            "failed": True,
            "msg": f"{error.filename or subject} cannot be used ({error.strerror}): check permissions, free space and "
            "that it is a directory of its own",
        }


def run_watched(module: Any, job: Job, work: Callable[[Meter], dict[str, Any]]) -> None:
    """Run a module's work directly or, with the option `wait`, as a job that later calls poll."""
    parameters = module.params
    if module.check_mode or not parameters["wait"]:
        result = outcome(work, Meter(), job.subject)
    else:
        try:
            if not parameters["attach"]:
                job.start(work)
            result = job.wait(parameters["wait"])
        except HubError as error:
            result = {"failed": True, "msg": str(error)}
        except OSError as error:
            words = f"the work on {job.subject} cannot be started or watched: {error}: make room there"
            result = {"failed": True, "msg": words}
    for note in result.pop("notes", []):
        module.warn(note)
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)


def _identity(pid: int) -> dict[str, Any]:
    return {"pid": pid, "started": process_started(pid)}


def _goes_on(state: dict[str, Any]) -> bool:
    """Whether a result may still come: the process runs, or is about to start."""
    if state.get("process"):
        return _runs(state["process"])
    return bool(state) and abs(time.time() - float(state.get("asked_at") or 0.0)) < UNWATCHED


def _runs(process: dict[str, Any]) -> bool:
    started = process_started(int(process["pid"]))
    return bool(started) and started == process["started"]
