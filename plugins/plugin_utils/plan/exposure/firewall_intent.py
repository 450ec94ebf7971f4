# SPDX-License-Identifier: Apache-2.0
"""Read the firewall part of an intent: the openings. Everything else is closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.firewall_rules import (
    SettingError,
    read_networks,
    read_opening,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import read_enabled, read_mapping

ERRORS = {
    "firewall.opening": "An opening is specified in full: a name, a protocol, ports, and the allowed sources.",
    "firewall.name": "Two openings with one name, or one with a name that the plan uses, could not be told apart.",
    "firewall.ssh-from": "SSH is allowed by address; an invalid one would lock everybody out, or let anybody in.",
}

FIREWALL_KEYS = ("enabled", "open", "ssh_from")
PLANNED = ("endpoint", "monitoring")
"""Names of the openings that follow from other parts of an intent."""


@dataclass(frozen=True)
class FirewallIntent:
    """What the operator opens in addition to the plan's own openings."""

    openings: tuple[Mapping[str, Any], ...] = ()
    """In the form that role firewall takes."""
    ssh_from: tuple[str, ...] = ()
    """Empty allows SSH from any address."""
    enabled: bool = True
    """False removes the rules of an earlier run."""


def read_firewall_intent(intent: Mapping[str, Any], errors: PlanErrors) -> FirewallIntent | None:
    """Read firstlight_firewall, refusing invalid openings; None if it is not set."""
    if intent.get("firstlight_firewall") is None:
        return None
    given = read_mapping(intent, "firstlight_firewall", FIREWALL_KEYS, errors)
    try:
        ssh_from = tuple(str(network) for network in read_networks(_listed(given, "ssh_from"), _name("ssh_from")))
    except SettingError as error:
        errors.add("firewall.ssh-from", error.found, f"expected {error.expected}", error.remedy)
        ssh_from = ()
    listed = _listed(given, "open")
    if not isinstance(listed, (list, tuple)):
        errors.add(
            "firewall.opening",
            f"{_name('open')} is {listed!r}",
            "expected a list of openings",
            "write it as a YAML list, each with name, protocol, ports and from",
        )
        listed = []
    openings: list[Mapping[str, Any]] = []
    for number, one in enumerate(listed):
        try:
            opening = read_opening(one, f"{_name('open')}[{number}]")
        except SettingError as error:
            errors.add("firewall.opening", error.found, f"expected {error.expected}", error.remedy)
            continue
        if opening.name in (*PLANNED, *(str(other["name"]) for other in openings)):
            errors.add(
                "firewall.name",
                f"{_name('open')}[{number}].name is {opening.name!r}",
                f"each name is used once, and {' and '.join(PLANNED)} are reserved for the plan",
                "give the opening another name",
            )
            continue
        openings.append({key: list(value) if isinstance(value, (list, tuple)) else value for key, value in one.items()})
    return FirewallIntent(tuple(openings), ssh_from, read_enabled(given, "firstlight_firewall", errors))


def _listed(given: Mapping[str, Any], key: str) -> Any:
    value = given.get(key)
    return [] if value is None else value


def _name(key: str) -> str:
    return f"firstlight_firewall.{key}"
