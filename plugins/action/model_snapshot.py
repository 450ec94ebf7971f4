# SPDX-License-Identifier: Apache-2.0
"""The action `model_snapshot`: run the module of the same name as a job on the host, and show its progress."""

from __future__ import annotations

import contextlib
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.notes import note
from ansible_collections.firstlight.cluster.plugins.plugin_utils.watching import watch


class ActionModule(ActionBase):
    """Runs the module of the same name with C(wait) and C(attach), which `fetch_job.run_watched` reads."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module to completion."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._variables = task_vars or {}
        if self._task.check_mode:
            result.update(self._execute_module(module_args=dict(self._task.args), task_vars=self._variables))
            return result
        host = str(self._variables.get("inventory_hostname") or "")
        self._lost: AnsibleConnectionFailure | None = None
        try:
            found = watch(self._ask, lambda words: note(host, words))
        finally:
            note(host, "")
        if found is None:
            raise self._lost or AnsibleConnectionFailure("The host became unreachable.")
        result.update(found)
        return result

    def _ask(self, extra: dict[str, Any]) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._execute_module(
                module_args={**self._task.args, **extra}, task_vars=self._variables
            )
        except AnsibleConnectionFailure as error:
            self._lost = error
            with contextlib.suppress(AnsibleConnectionFailure, AttributeError, NotImplementedError):
                self._connection.reset()
            return None
        return found
