# SPDX-License-Identifier: Apache-2.0
"""The firewall of a host: one file of rules, the unit that loads it at boot, and the rules in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall import RULES_PATH, UNIT, UNIT_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import root_file
from ansible_collections.firstlight.cluster.plugins.plugin_utils.firewall_rules import (
    DEFAULTS,
    read_firewall,
    render_rules,
    render_service,
)

PACKAGE = "nftables"


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The rules, in the file and in force. Raises ValueError for settings that no rules can be made of."""
    settings = {**DEFAULTS, **variables}
    firewall = read_firewall(settings)
    if settings["firewall_state"] == "absent":
        return {
            "units": {UNIT: {"enabled": False, "active": False, "if_present": True}},
            "rulesets": {RULES_PATH: {"loaded": False}},
        }
    return {
        "packages": {PACKAGE: None},
        "files": {RULES_PATH: root_file(render_rules(firewall)), UNIT_PATH: root_file(render_service())},
        "units": {UNIT: {"enabled": True, "active": True}},
        "rulesets": {RULES_PATH: {"loaded": True}},
    }
