# SPDX-License-Identifier: Apache-2.0
"""The action `compare`: observe a host and resolve its plan with the observation."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import plain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.verification import requested, resolved


class ActionModule(ActionBase):
    """Compares one host with its plan."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Observe the host and resolve its plan; fail for errors such as a rail without a port."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "plan": {"type": "dict", "required": True},
                "roles": {"type": "list", "elements": "str", "default": []},
                "strict": {"type": "bool", "default": True},
            }
        )
        plan, roles = plain(arguments["plan"]), arguments["roles"]
        seen: dict[str, Any] = self._execute_module(
            module_name="firstlight.cluster.observe",
            module_args={"desired": requested(plan, roles)},
            task_vars=task_vars,
        )
        seen.pop("invocation", None)  # the request is as large as the answer
        result.update(seen)
        if "observation" not in seen:
            return result
        try:
            found = resolved(plan, seen["observation"], roles)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            # Leave the observation out, so that the host is not mistaken for one without differences.
            return {"failed": True, "msg": f"compare cannot resolve this plan: {error!r}"}
        result.update(found)
        errors, notes = found["plan"].get("errors"), found["plan"].get("notes")
        if arguments["strict"] and errors:
            host = (task_vars or {}).get("inventory_hostname")
            result.update(failed=True, msg=f"Nothing was changed on {host}. {' | '.join(errors)}")
        elif arguments["strict"] and notes:
            result["msg"] = notes
        return result
