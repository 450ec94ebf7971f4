# SPDX-License-Identifier: Apache-2.0
"""The action `cluster_lease`: acquire the lease of the cluster and renew it until this run ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import signal
import time
from pathlib import Path
from typing import Any, NoReturn

from ansible import context
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.module_utils.lease import (
    LOST,
    PATH,
    beat_command,
    release_command,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.lease import BEAT_SECONDS, HeldError, takeover
from ansible_collections.firstlight.cluster.plugins.plugin_utils.operator import Run, exists

ANSWER_SECONDS = 60
"""Timeout of one request to the head; the next heartbeat tries again."""


TAKEOVERS = 3
"""Maximum attempts: other runs may be faster, but a faulty head must not keep this one in a loop."""


class ActionModule(ActionBase):
    """Acquires the lease on the host of the task."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Acquire the lease, or fail and name its holder."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._task.check_mode:
            result.update(changed=False)
            return result
        # First of all: a run that is killed at this point must not leave a lease that nobody releases.
        watch = Watch(_main_process())
        run = Run.of(watch.pid)
        path = str(self._task.args.get("path") or PATH)
        playbooks = ", ".join(Path(name).name for name in context.CLIARGS.get("args") or ())
        asked = {
            "run": run.name,
            "owner": run.owner,
            "machine": run.machine,
            "pid": run.pid,
            "playbook": playbooks or "Ansible",
            "path": path,
        }
        try:
            answer = self._taken(run, asked, task_vars)
        except HeldError as error:
            answer = {"changed": False, "taken": False, "failed": True, "msg": str(error)}
        except AnsibleConnectionFailure as error:
            # A host can still be taken out of service then; steps that need the head fail on their own.
            reason = next(iter(str(error).splitlines()), "")
            self._display.warning(
                f"No lease was taken, so nothing keeps others out: the head does not answer ({reason})"
            )
            answer = {"changed": False}
        result.update(answer)
        if result.get("taken") and not result["renewed"]:
            self._keep(watch, beat_command(path, run.name), release_command(path, run.name))
        return result

    def _taken(self, run: Run, asked: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Acquire the lease, with takeovers, and return the head's answer; raises HeldError if it is not possible."""
        answer = self._take(asked, task_vars)
        for _ in range(TAKEOVERS):
            if answer.get("taken") is not False:
                return answer
            why = takeover(run, answer["lease"], answer["age"], str(self._task.args.get("break_owner") or ""))
            answer = self._take({**asked, "replace": str(answer["lease"]["run"])}, task_vars)
            self._display.warning(why)
        if answer.get("taken") is False:
            raise HeldError(f"The lease was held again after each of {TAKEOVERS} takeovers: see the head's {PATH}")
        return answer

    def _take(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name="firstlight.cluster.cluster_lease", module_args=arguments, task_vars=task_vars
        )
        return answer

    # -- the process that outlives this task ------------------------------------------------------------------------

    def _keep(self, watch: Watch, beat: str, release: str) -> None:
        """Start a background process that renews the lease until the run ends, and then releases it."""
        middle = os.fork()
        if middle:
            os.waitpid(middle, 0)
            return
        try:
            os.setsid()
            if not os.fork():
                os.setsid()
                self._renew(watch, beat, release)
        finally:
            # Never return into Ansible's code, whatever happened.
            os._exit(0)

    def _renew(self, watch: Watch, beat: str, release: str) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # SIGTERM must stop the children but not this process. A handler does not pass to them, unlike SIG_IGN.
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGALRM, _too_late)
        self._display.verbosity = 0
        while not watch.ended(BEAT_SECONDS):
            if self._ask(beat) == LOST:
                self._display.error(
                    "This run stops here: somebody else has broken its lease and is working on the cluster."
                )
                watch.interrupt()
                return
        self._ask(release)

    def _ask(self, command: str) -> int | None:
        """Run a shell command on the head and return its exit status; None if it does not answer, as during a boot."""
        signal.alarm(ANSWER_SECONDS)
        try:
            return int(self._low_level_execute_command(command, sudoable=True)["rc"])
        except Exception:  # noqa: BLE001 - whatever it is, the next heartbeat may come through
            os.killpg(os.getpgrp(), signal.SIGTERM)
            return None
        finally:
            signal.alarm(0)


def _main_process() -> int:
    """Return the PID of Ansible's main process; raises AnsibleError if it is gone, as workers outlive a killed run."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid != os.getppid():
        raise AnsibleError("The run that this belongs to has ended: nothing was changed")
    return os.getppid()


def _too_late(*_: object) -> NoReturn:
    raise TimeoutError


class Watch:
    """Detects when a process ends, by a pidfd or, if the kernel has none, by polling."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def ended(self, seconds: float) -> bool:
        """Return whether the process ends within this time, as soon as it does."""
        if self._descriptor is not None:
            return bool(select.select([self._descriptor], [], [], seconds)[0])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not exists(self.pid):
                return True
            time.sleep(0.2)
        return False

    def interrupt(self) -> None:
        """Send SIGINT, as an operator's Ctrl-C does."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)
