# SPDX-License-Identifier: Apache-2.0
"""The action `support_bundle`: decide what to collect from each host, and write what the hosts returned."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.module_utils.redact import redact_text
from ansible_collections.firstlight.cluster.plugins.plugin_utils.support_bundle import (
    SupportBundleError,
    check_directory,
    host_part,
    labels,
    report,
    request,
    safe_name,
    write,
)


def _known_as(names: Mapping[str, str], variables: Mapping[str, Any]) -> dict[str, str]:
    """Map every inventory name and address of the hosts to the host's name in the support bundle."""
    addresses = {host: variables["hostvars"][host].get("ansible_host") for host in names}
    return {str(address): names[host] for host, address in addresses.items() if address} | dict(names)


class ActionModule(ActionBase):
    """Prepares or writes a support bundle. Runs on the controller."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the requested action."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "action": {"type": "str", "choices": ["begin", "write"], "required": True},
                "directory": {"type": "path", "required": True},
                "group": {"type": "str", "default": "cluster"},
                "hosts": {"type": "list", "elements": "str"},
                "plans": {"type": "dict", "default": {}},
                "asked": {"type": "dict", "default": {}},
                "register": {"type": "str", "default": "collect_answer"},
                "anonymous": {"type": "bool", "default": False},
            }
        )
        variables = task_vars or {}
        try:
            found = (
                self._begin(arguments, variables)
                if arguments["action"] == "begin"
                else self._write(arguments, variables)
            )
        except SupportBundleError as error:
            found = {"failed": True, "msg": str(error)}
        except OSError as error:
            why = f"{error.filename} cannot be written: {error.strerror}"
            found = {"failed": True, "msg": f"{why}, expected a place for the support bundle: name another directory"}
        return {**result, "changed": False, **found}

    def _begin(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        check_directory(arguments["directory"])
        hosts = [str(name) for name in (variables.get("groups") or {}).get(arguments["group"]) or []]
        names = labels(hosts, anonymous=arguments["anonymous"])
        asked = {}
        for host in hosts:
            hardware = variables["hostvars"][host].get("firstlight_hardware")
            plan = arguments["plans"].get(host)
            asked[host] = request(names[host], plan, hardware if isinstance(hardware, str) else None)
        return {"asked": asked, "names": _known_as(names, variables)}

    def _write(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        parts = []
        hosts = arguments["hosts"] or ()
        names = {host: safe_name((arguments["asked"].get(host) or {}).get("name") or host) for host in hosts}
        # A random key, as pseudonyms need not match those of other bundles.
        redaction = {"key": secrets.token_hex(), "anonymous": arguments["anonymous"]}
        redaction["names"] = _known_as(names, variables)
        for host in hosts:
            answer = variables["hostvars"][host].get(arguments["register"])
            asked = arguments["asked"].get(host) or {}
            parts.append(host_part(names[host], asked, answer, lambda text: redact_text(text, redaction)))
        lines = report(arguments["directory"], parts)
        if not any(part.files for part in parts):
            raise SupportBundleError(f"nothing was collected: {'; '.join(lines[:-1])}")
        if not self._task.check_mode:
            check_directory(arguments["directory"])
            made = datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")
            write(arguments["directory"], parts, made)
        return {"lines": lines}
