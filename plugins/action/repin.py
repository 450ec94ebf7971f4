# SPDX-License-Identifier: Apache-2.0
"""The action `repin`: drive one host's move to its verdict, from whatever point its journal has reached."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.module_utils.repin import journal as book
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.mover import (
    Mover,
    RefusedError,
    Request,
    UnreachableError,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.stack_set import verified_states
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.steps import Seen, next_step

MODULE = "firstlight.cluster.repin"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "action": {"type": "str", "required": True, "choices": ["move"]},
    "direction": {"type": "str", "choices": ["forward", "back"], "default": "forward"},
    "reason": {"type": "str", "default": ""},
    "verify": {"type": "dict", "default": {}},
    "verify_rollback": {"type": "dict", "default": {}},
    "reboot_timeout": {"type": "int", "default": 900},
    "answer_timeout": {"type": "int", "default": 30},
    "gate_timeout": {"type": "int", "default": 180},
    "unreachable_timeout": {"type": "int", "default": 120},
    "timeout": {"type": "int", "default": 1800},
    "lock_timeout": {"type": "int", "default": 600},
}
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


class ActionModule(ActionBase):
    """Moves a host to another stack."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Drive the host until there is a verdict and return it; the playbook evaluates a bad one.

        Any action other than `move` is passed on to the module.
        """
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._task.args.get("action") != "move":
            result.update(self._execute_module(module_name=MODULE, task_vars=task_vars))
            return result
        _, arguments = self.validate_argument_spec(ARGUMENTS)
        variables = task_vars or {}
        hands = ConnectionHands(self, variables, arguments)
        if self._task.check_mode:
            try:
                result.update(would_do(hands.module("read", {}), arguments))
            except (AnsibleError, UnreachableError, RefusedError) as error:
                result.update(Mover(hands, Request()).broke_off(_first_line(error)).result())
            return result
        request = Request(
            direction=arguments["direction"],
            reason=arguments["reason"],
            verify=verified_states(arguments["verify"]),
            verify_rollback=verified_states(arguments["verify_rollback"], back=True),
            reboot_timeout=arguments["reboot_timeout"],
            gate_timeout=arguments["gate_timeout"],
            unreachable_timeout=arguments["unreachable_timeout"],
        )
        mover = Mover(hands, request)
        try:
            outcome = mover.run()
        except AnsibleError as error:
            # For example a missing become password: raised from here it would end the play for this host, and nothing
            # would roll the group back.
            outcome = mover.broke_off(
                f"The controller could not continue: {_first_line(error)}. The host is in the state that its journal "
                "shows; run again"
            )
        result.update(outcome.result())
        return result

    def reset_connection(self) -> None:
        """Reset the connection: its other end may be gone."""
        with contextlib.suppress(AnsibleConnectionFailure, AttributeError, NotImplementedError):
            self._connection.reset()

    def call(
        self, name: str, arguments: Mapping[str, Any], variables: dict[str, Any], *, may_fail: bool = False
    ) -> dict[str, Any]:
        """Run a module on the host; raises UnreachableError or RefusedError."""
        found = self._try(
            lambda: self._execute_module(module_name=name, module_args=dict(arguments), task_vars=variables)
        )
        if found.get("unreachable"):
            raise UnreachableError(_said(found))
        if found.get("failed"):
            # A module that was killed returns no message of its own.
            raise (RefusedError if found.get("refused") or may_fail else UnreachableError)(_said(found))
        return found

    def ask(self, command: str) -> str:
        """Run a plain command over a new connection and return its output; raises UnreachableError."""
        self.reset_connection()
        found = self._try(lambda: self._low_level_execute_command(command, sudoable=False))
        if found.get("rc") != 0:
            raise UnreachableError(str(found.get("stderr") or found.get("stdout") or "no answer").strip()[-300:])
        return str(found.get("stdout") or "").strip()

    def tell(self, words: str) -> None:
        """Show a line to the operator."""
        self._display.display(words)

    def _try(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return work()
        except AnsibleConnectionFailure as error:
            self.reset_connection()
            raise UnreachableError(_first_line(error)) from error
        except AnsibleError as error:
            if "temporary directory" in str(error) or "unreachable" in str(error).lower():
                self.reset_connection()
                raise UnreachableError(_first_line(error)) from error
            raise


class ConnectionHands:
    """A host at the other end of a connection."""

    def __init__(self, action: ActionModule, variables: dict[str, Any], arguments: Mapping[str, Any]) -> None:
        self.action = action
        self.variables = variables
        self.name = str(variables.get("inventory_hostname", "host"))
        self.limits = {key: arguments[key] for key in ("timeout", "lock_timeout")}
        self.answer_timeout = arguments["answer_timeout"]
        self.parent = os.getppid()

    def module(self, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if os.getppid() != self.parent:
            # Ansible's workers outlive a killed run: this one must not interfere with the next run.
            raise AnsibleError(
                "The run that this belongs to has ended: the host stays in the state that its journal shows"
            )
        return self.action.call(MODULE, {"action": action, **self.limits, **arguments}, self.variables)

    def observe(self, desired: Mapping[str, Any]) -> dict[str, Any]:
        arguments = {"desired": dict(desired), "timeout": self.answer_timeout}
        found: dict[str, Any] = self.action.call("firstlight.cluster.observe", arguments, self.variables)["observation"]
        return found

    def repair(self, module: str, arguments: Mapping[str, Any]) -> None:
        self.action.call(module, arguments, self.variables, may_fail=True)

    def boot_id(self) -> str:
        return self.action.ask(BOOT_ID)

    def say(self, words: str) -> None:
        self.action.tell(f"{self.name}: {words}")

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def would_do(reading: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the next step according to the journal without running it, for check mode."""
    journal = reading.get("journal")
    seen = Seen(boot_id=str(reading.get("boot_id")), direction=arguments["direction"], reason=arguments["reason"])
    step = next_step(journal, seen)
    ends = step.action in ("done", "stop")
    return {
        "changed": not ends,
        "outcome": "",
        "problem": step.words if step.action == "stop" else "",
        "problems": [],
        "would": [] if ends else [step.words],
        "timeline": book.timeline(journal),
        "journal": journal,
    }


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300].rstrip(".") if lines else type(error).__name__


def _said(found: Mapping[str, Any]) -> str:
    words = str(found.get("msg") or "") or str(found.get("module_stderr") or "")
    return words.strip() or "the module was interrupted"
