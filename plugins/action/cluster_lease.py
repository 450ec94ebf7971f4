# SPDX-License-Identifier: Apache-2.0
"""The action of `cluster_lease`: take the lease of the cluster, and have it kept until this run ends."""

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
"""A head that does not do so little within this time is asked again with the next heartbeat."""


class ActionModule(ActionBase):
    """Takes the lease on the host that it is run for."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Take it, or fail with who holds it."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._task.check_mode:
            result.update(changed=False)
            return result
        # Before anything else: a run that is killed in this moment must not leave a lease that nobody gives back.
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
            answer = self._take(asked, task_vars)
            while answer.get("taken") is False:
                broken = str(self._task.args.get("break_owner") or "")
                why = takeover(run, answer["lease"], answer["age"], broken)
                # By somebody who is quicker it may be held again.
                answer = self._take({**asked, "replace": str(answer["lease"]["run"])}, task_vars)
                self._display.warning(why)
        except HeldError as error:
            answer.update(failed=True, msg=str(error))
        except AnsibleConnectionFailure as error:
            # A host can still be taken out of service then; whatever needs the head says so itself.
            reason = next(iter(str(error).splitlines()), "")
            self._display.warning(
                f"No lease was taken, so that nothing keeps others off: the head does not answer ({reason})"
            )
            answer = {"changed": False}
        result.update(answer)
        if result.get("taken") and not result["renewed"]:
            self._keep(watch, beat_command(path, run.name), release_command(path, run.name))
        return result

    def _take(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name="firstlight.cluster.cluster_lease", module_args=arguments, task_vars=task_vars
        )
        return answer

    # -- the process that outlives this task ------------------------------------------------------------------------

    def _keep(self, watch: Watch, beat: str, release: str) -> None:
        """Leave a process behind that renews the lease until the run ends, and then gives it back."""
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
            # Never back into Ansible, whatever happened.
            os._exit(0)

    def _renew(self, watch: Watch, beat: str, release: str) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Stops what this process started and not this process: who ignored it would hand that down.
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGALRM, _too_late)
        self._display.verbosity = 0
        while not watch.ended(BEAT_SECONDS):
            if self._ask(beat) == LOST:
                self._display.error("This run stops here: somebody else has broken its lease and works on the cluster.")
                watch.interrupt()
                return
        self._ask(release)

    def _ask(self, command: str) -> int | None:
        """Have a shell on the head do this; None where it cannot be reached or does not answer, as while it boots."""
        signal.alarm(ANSWER_SECONDS)
        try:
            return int(self._low_level_execute_command(command, sudoable=True)["rc"])
        except Exception:  # noqa: BLE001 - whatever it is, the next heartbeat may come through
            os.killpg(os.getpgrp(), signal.SIGTERM)
            return None
        finally:
            signal.alarm(0)


def _main_process() -> int:
    """The process whose worker this is; raises AnsibleError where that is gone: workers outlive a killed run."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid != os.getppid():
        raise AnsibleError("The run that this belongs to has ended: nothing was changed")
    return os.getppid()


def _too_late(*_: object) -> NoReturn:
    raise TimeoutError


class Watch:
    """Tells when a process ends. Where the kernel has no descriptors of processes, it is looked for."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def ended(self, seconds: float) -> bool:
        """Whether it ends within this time; returns as soon as it does."""
        if self._descriptor is not None:
            return bool(select.select([self._descriptor], [], [], seconds)[0])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not exists(self.pid):
                return True
            time.sleep(0.2)
        return False

    def interrupt(self) -> None:
        """Stop it as its operator would."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)
