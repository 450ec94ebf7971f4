# SPDX-License-Identifier: Apache-2.0
"""The action `endpoint_secrets`: run the module of the same name and copy the clients' files to the controller."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.module_utils.host import write_file
from ansible_collections.firstlight.cluster.plugins.modules.endpoint_secrets import ARGUMENTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_answer import believed
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import (
    ClientFiles,
    client_files,
    state_directory,
)

SHOWN = ("lines", "unread", "not_after", "days_left", "own", "certificate_names")
"""Keys of the module's result that are not secret."""
MODE, DIRECTORY_MODE = 0o600, 0o700


class ActionModule(ActionBase):
    """Manages keys and certificate on the host, and stores what clients need on the controller."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module, then compare and write the files on the controller; the result contains no key."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(ARGUMENTS)
        variables = task_vars or {}
        if not self._task.no_log:
            return {**result, "failed": True, "msg": "endpoint_secrets has no `no_log: true`, which it needs: add it"}
        directory = client_directory(arguments, variables)
        answer = self._execute_module(module_args=dict(self._task.args), task_vars=variables)
        # Report problems in the result instead of failing: no_log would hide the message of a failed task.
        result |= {"changed": False, "lines": [], "client_directory": str(directory), "problem": ""}
        if answer.get("failed") or answer.get("unreachable"):
            result["problem"] = str(answer.get("msg") or "the host gave no answer")
            return result
        result |= {name: answer[name] for name in SHOWN if name in answer}
        result["changed"] = bool(answer.get("changed"))
        if arguments["state"] == "absent" and not answer.get("was_here"):
            return result
        try:
            written = {} if arguments["state"] == "absent" else _wanted(directory, arguments, answer)
            changed = converge(directory, written, check_mode=self._task.check_mode)
        except ValueError as error:
            result["problem"] = f"nothing was written on the controller: {error}"
        except OSError as error:
            result["problem"] = (
                f"{error.filename or directory} cannot be written to on the controller ({error.strerror}), expected a "
                "directory of your own: correct its owner, or set endpoint_client_directory"
            )
        else:
            result["changed"] |= changed
        return result


def _wanted(directory: Path, arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[Path, str]:
    """Return the files to write on the controller. Raises ValueError for an answer that fails validation."""
    # Ansible removes values that were passed as no_log arguments from the module's result; put them back.
    given = {name: str(value) for name, value in arguments["key_values"].items() if value}
    told = answer.get("keys")
    if isinstance(told, Mapping):
        answer = {**answer, "keys": {**told, **{name: value for name, value in given.items() if name in told}}}
    return client_files(directory, *believed(arguments["keys"], not arguments["certificate"], answer))


def client_directory(arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> Path:
    """Return the directory for the files."""
    if arguments["client_directory"]:
        return Path(os.path.expanduser(arguments["client_directory"]))
    cluster = arguments["cluster"] or os.path.basename(str(variables.get("inventory_dir") or "")) or "cluster"
    return state_directory(cluster)


def converge(directory: Path, written: Mapping[Path, str], *, check_mode: bool) -> bool:
    """Make the controller's files match `written`, and return whether anything changed."""
    keys = ClientFiles(directory).key("any").parent
    surplus = sorted(path for path in keys.glob("*") if path not in written) if keys.is_dir() else []
    authority = ClientFiles(directory).authority
    surplus += [authority] if authority not in written and authority.exists() else []
    differing = {path: text for path, text in written.items() if _differs(path, text)}
    loose = [path for path in (directory, keys) if path.is_dir() and path.stat().st_mode & 0o777 != DIRECTORY_MODE]
    if check_mode:
        return bool(surplus or differing or loose)
    for path in (directory, keys) if written else ():
        path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        path.chmod(DIRECTORY_MODE)
    for path, text in differing.items():
        write_file(str(path), text, MODE)
    for path in surplus:
        path.unlink()
    return bool(surplus or differing or loose)


def _differs(path: Path, text: str) -> bool:
    try:
        return path.stat().st_mode & 0o777 != MODE or path.read_text(encoding="utf-8") != text
    except FileNotFoundError:
        return True
