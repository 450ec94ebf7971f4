# SPDX-License-Identifier: Apache-2.0
"""Reach one host as a playbook would, through Ansible's own connection and become plugins, but without a playbook.

This way every `ansible_*` variable, `ansible.cfg`, the operator's ssh_config, jump hosts and known_hosts keep their
usual meaning, and an unreachable host produces the usual message. A connection that Ansible left open is reused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import become_loader, connection_loader
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.reading import Source

from .errors import UsageError
from .remote_program import OTHER_PYTHON, command, message

ANSWER_SECONDS = 300
"""Timeout for a host that accepts the connection but does not answer; `firstlight_answer_timeout` overrides it."""
DEFAULT_PYTHON = "/usr/bin/python3"
KINDS = ("ssh", "smart", "local")
"""Connection plugins that can pass a program through standard input."""


def is_true(host: Source, name: str) -> bool:
    """Return whether a host variable is set and true, in any spelling that Ansible accepts."""
    return name in host.names and bool(boolean(host.value(name), strict=False))


class Connection:
    """A connection to a host, opened on the first request."""

    def __init__(self, source: Source, become_password: str | None = None) -> None:
        self.host = source.name
        self._source = source
        settings = vars(constants)
        kind = str(self._value("ansible_connection") or settings["DEFAULT_TRANSPORT"])
        if kind.removeprefix("ansible.builtin.") not in KINDS:
            raise UsageError(
                f"{self.host} has ansible_connection {kind}, expected one of {', '.join(KINDS)}: run ansible-playbook "
                "playbooks/verify.yml"
            )
        self._plugin = connection_loader.get("ssh" if kind == "smart" else kind, PlayContext())
        self._plugin.set_options(var_options=self._options("connection", self._plugin))
        self._plugin._shell.set_options(var_options=self._options("shell", self._plugin._shell))
        become = self._value("ansible_become")
        if become is None or boolean(become):
            self._become(
                str(self._value("ansible_become_method") or settings["DEFAULT_BECOME_METHOD"]), become_password
            )
        python = str(self._value("ansible_python_interpreter") or settings["INTERPRETER_PYTHON"] or "auto")
        self._python = DEFAULT_PYTHON if python.startswith("auto") else python
        self.seconds = int(self._value("firstlight_answer_timeout") or ANSWER_SECONDS)

    def _value(self, name: str) -> Any:
        return self._source.value(name) if name in self._source.names else None

    def _options(self, kind: str, plugin: Any) -> dict[str, Any]:
        """Return the host's variables that configure a plugin."""
        known = constants.config.get_plugin_vars(kind, plugin._load_name)
        return {name: self._source.value(name) for name in known if name in self._source.names}

    def _become(self, method: str, password: str | None) -> None:
        plugin = become_loader.get(method)
        if plugin is None or (plugin.require_tty and not getattr(self._plugin, "has_tty", False)):
            raise UsageError(
                f"{self.host} has ansible_become_method {method}, expected one that needs no terminal, such as sudo: "
                "run ansible-playbook playbooks/verify.yml"
            )
        given = {"become_pass": password} if password else {}
        plugin.set_options(task_keys=given, var_options=self._options("become", plugin))
        user = self._plugin.get_option("remote_user") if self._plugin.transport == "ssh" else None
        if vars(constants)["BECOME_ALLOW_SAME_USER"] or plugin.get_option("become_user") != user:
            self._plugin.set_become_plugin(plugin)

    def ask(self, function: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a function of the collection on the host. Returns `answer`, or `problem` with the reason."""
        found = self._ask(function, arguments, source=False)
        if found.get("problem") == OTHER_PYTHON:
            found = self._ask(function, arguments, source=True)
        return found

    def _ask(self, function: str, arguments: Mapping[str, Any], *, source: bool) -> dict[str, Any]:
        words = command(self._python, source=source)
        plugin = self._plugin
        if plugin.become:
            words = plugin.become.build_become_command(words, plugin._shell)
        words = plugin._shell.append_command(words, "sleep 0")  # as Ansible does: ssh may drop the end of the output
        try:
            status, out, err = plugin.exec_command(words, in_data=message(function, arguments, source=source))
        except AnsibleConnectionFailure as error:
            return {"problem": str(error), "unreachable": True}
        except AnsibleError as error:
            return {"problem": str(error)}
        return read_answer(status, bytes(out), bytes(err))


def read_answer(status: int, out: bytes, err: bytes) -> dict[str, Any]:
    """Parse the program's answer from the last line of output, or return a problem with what the host printed."""
    lines = out.decode("utf-8", "replace").splitlines()
    try:
        found = json.loads(lines[-1])
        if isinstance(found, dict) and found.keys() & {"answer", "problem"}:
            return found
    except (IndexError, ValueError):
        pass
    said = [line.strip() for line in (*err.decode("utf-8", "replace").splitlines(), *lines) if line.strip()]
    return {"problem": f"it gave no answer (status {status}): {said[-1][:300] if said else 'no output'}"}


def read_become_password(files: list[str]) -> str | None:
    """Read the password entered for -K from the file used to pass it on."""
    return Path(files[-1]).read_text(encoding="utf-8").rstrip("\n") if files else None
