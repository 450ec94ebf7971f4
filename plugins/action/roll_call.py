# SPDX-License-Identifier: Apache-2.0
"""The action `roll_call`: fail where hosts of a run are out, and say which; no host is contacted."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.attendance import (
    attendance_message,
    missing_by_rack,
    rack_groups,
)


class ActionModule(ActionBase):
    """Compares those who should be there with those who are."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Name the hosts that are out, by rack."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        names = {"type": "list", "elements": "str", "required": True}
        _, arguments = self.validate_argument_spec({"expected": names, "present": names})
        racks = rack_groups((task_vars or {}).get("groups") or {})
        missing = missing_by_rack(arguments["expected"], arguments["present"], racks)
        result.update(changed=False, missing=missing)
        if missing:
            result.update(failed=True, msg=attendance_message(arguments["expected"], missing))
        return result
