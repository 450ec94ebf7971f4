# SPDX-License-Identifier: Apache-2.0
"""The action `netplan_config`: start a network change, reconnect over new connections, and confirm it."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.netplan_confirm import (
    GRACE,
    NETPLAN,
    Coming,
    UnreachableError,
    begin,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.operator import Run, is_over


class ActionModule(ActionBase):
    """Changes a host's network configuration."""

    MODULE = "firstlight.cluster.netplan_config"
    WORDS = NETPLAN
    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Start the change and, if there is one, wait until the host has confirmed it or rolled it back."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        hands = ConnectionHands(self, variables)
        timeout = int(self._task.args.get("confirm_timeout", 60))
        run = Run.of(hands.parent)
        # A run that holds the cluster's lease knows that no other run is active.
        alone = bool((variables.get("firstlight_lease") or {}).get("taken"))
        arguments = {**self._task.args, "step": "apply", "run": run.name}

        def ask(ended: str) -> dict[str, Any]:
            with_ended = {**arguments, "ended": ended} if ended else arguments
            answer: dict[str, Any] = self._execute_module(
                module_name=self.MODULE, module_args=with_ended, task_vars=variables
            )
            return answer

        def over(other: str) -> bool:
            return alone or bool(is_over(other, run.machine))

        result.update(begin(ask, over, hands, self.WORDS, timeout + GRACE))
        change = result.pop("change", None)
        if change is None or result.get("failed"):
            return result
        coming = Coming(hands, change, self.path(), timeout, words=self.WORDS)
        result.update(coming.run())
        if result.get("failed"):
            # As far as is known, the host is in its previous state.
            result["changed"] = False
        return result

    def path(self) -> str:
        """Return the path of the file that the change concerns."""
        return str(self._task.args["path"])

    def ask(self, name: str, change: str, variables: dict[str, Any]) -> dict[str, Any]:
        """Run a step of the module over a new connection; raises UnreachableError."""
        with contextlib.suppress(AnsibleConnectionFailure, AttributeError, NotImplementedError):
            self._connection.reset()
        arguments = {**self._task.args, "step": name, "change": change}
        try:
            found: dict[str, Any] = self._execute_module(
                module_name=self.MODULE, module_args=arguments, task_vars=variables
            )
        except AnsibleConnectionFailure as error:
            raise UnreachableError(_first_line(error)) from error
        except AnsibleError as error:
            # Ansible reports this for a host it cannot log in to as well.
            if "temporary directory" in str(error) or "unreachable" in str(error).lower():
                raise UnreachableError(_first_line(error)) from error
            raise
        if found.get("unreachable"):
            raise UnreachableError(str(found.get("msg") or "no answer").strip().splitlines()[0][:300])
        if found.get("failed") and not found.get("refused"):
            # A module that was interrupted returns no message of its own.
            raise UnreachableError(str(found.get("module_stderr") or found.get("msg") or "no answer").strip()[-300:])
        return found


class ConnectionHands:
    """A host at the other end of a connection."""

    def __init__(self, action: ActionModule, variables: dict[str, Any]) -> None:
        self.action = action
        self.variables = variables
        self.name = str(variables.get("inventory_hostname", "host"))
        self.parent = os.getppid()

    def step(self, name: str, change: str) -> dict[str, Any]:
        if os.getppid() != self.parent:
            # Ansible's workers outlive a killed run: nobody would see what this one confirms.
            raise AnsibleError("The run that this belongs to has ended: the host rolls the change back by itself")
        return self.action.ask(name, change, self.variables)

    def say(self, words: str) -> None:
        self.action._display.display(f"{self.name}: {words}")

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300].rstrip(".") if lines else type(error).__name__
