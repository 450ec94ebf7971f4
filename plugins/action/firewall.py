# SPDX-License-Identifier: Apache-2.0
"""The action `firewall`: load the rules, reconnect over new connections, and confirm them."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.action.netplan_config import ActionModule as ConfirmedAction
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall import RULES_PATH
from ansible_collections.firstlight.cluster.plugins.plugin_utils.netplan_confirm import FIREWALL


class ActionModule(ConfirmedAction):
    """Changes a host's firewall."""

    MODULE = "firstlight.cluster.firewall"
    WORDS = FIREWALL

    def path(self) -> str:
        return str(self._task.args.get("path") or RULES_PATH)
