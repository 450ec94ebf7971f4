# SPDX-License-Identifier: Apache-2.0
"""The action of `compare`: observe a host, and put what was found into its plan."""

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
        """Observe, resolve, and refuse a host on which a rail has no port."""
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
        seen.pop("invocation", None)  # the request is as long as the answer
        result.update(seen)
        if "observation" not in seen:
            return result
        try:
            found = resolved(plan, seen["observation"], roles)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            # Without the observation, so that nobody takes this host for one on which nothing differs.
            return {"failed": True, "msg": f"compare cannot resolve this plan: {error!r}"}
        result.update(found)
        errors, notes = found["plan"].get("errors"), found["plan"].get("notes")
        if arguments["strict"] and errors:
            host = (task_vars or {}).get("inventory_hostname")
            result.update(failed=True, msg=f"Nothing was changed on {host}. {' | '.join(errors)}")
        elif arguments["strict"] and notes:
            result["msg"] = notes
        return result
