# SPDX-License-Identifier: Apache-2.0
"""The desired state of a host's firewall: the rules file, the unit that loads it at boot, and the loaded rules."""

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
    """Return the rules, as a file and as loaded. Raises ValueError for settings that cannot be rendered as rules."""
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
