# SPDX-License-Identifier: Apache-2.0
"""The plan: intent and catalog in, one document a host out. Pure; no host is contacted.

Whatever can be known wrong before a host is touched is refused here, all of it at once, each refusal with
what was found, the rule, and what to change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import ROLES, desired_state
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog import Catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent import (
    Choices,
    HostIntent,
    check_intent,
    choose,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.refusals import Refusal, Refusals
from ansible_collections.firstlight.cluster.plugins.plugin_utils.role_variables import (
    check_role_variables,
    fabric_of,
    role_variables,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import RoleInterface

Plan = dict[str, Any]


def build_plan(
    intent: Mapping[str, Any],
    catalog: Catalog,
    hosts: Sequence[HostIntent],
    roles: Mapping[str, RoleInterface] | None = None,
) -> dict[str, Plan]:
    """A plan for every host, or for every host the same list of refusals and nothing to do."""
    interfaces = roles or {}
    refusals = Refusals()
    check_intent(intent, hosts, refusals)
    check_role_variables(hosts, interfaces, refusals)
    choices = choose(intent, catalog, hosts, refusals)
    plans: dict[str, Plan] = {}
    if choices is not None and not refusals.found:
        plans = {
            host.name: _host_plan(choices, interfaces, index, refusals) for index, host in enumerate(choices.hosts)
        }
    if refusals.found:
        unique = list({tuple(refusal.items()): refusal for refusal in refusals.found}.values())
        return {host.name: _refused(host, hosts, unique) for host in hosts}
    return plans


def _cluster(hosts: Sequence[HostIntent]) -> dict[str, Any]:
    heads = [host.name for host in hosts if host.is_head]
    return {
        "head": heads[0] if len(heads) == 1 else None,
        "hosts": [host.name for host in hosts],
        "size": len(hosts),
    }


def _refused(host: HostIntent, hosts: Sequence[HostIntent], refusals: list[Refusal]) -> Plan:
    return {
        "cluster": _cluster(hosts),
        "host": {"name": host.name, "is_head": host.is_head},
        "roles": {},
        "desired": {},
        "refusals": refusals,
    }


def _host_plan(choices: Choices, interfaces: Mapping[str, RoleInterface], index: int, refusals: Refusals) -> Plan:
    host = choices.hosts[index]
    order = [choices.head.name, *(one.name for one in choices.hosts if one is not choices.head)]
    fabric = fabric_of(choices, index)
    roles = role_variables(choices, interfaces, host, fabric)
    desired: dict[str, Any] = {}
    for role in ROLES:
        variables = roles[role]
        desired[role] = {}
        if variables is None or (role == "inference_server" and not host.is_head):
            continue
        try:
            desired[role] = desired_state(role, variables)
        except KeyError as error:
            refusals.add(
                "role.state",
                f"role {role} on {host.name} lacks the variable {error}",
                "a planned role has all its variables",
                f"set {error} in the inventory",
            )
        except (ValueError, TypeError) as error:
            refusals.add(
                "role.state",
                f"role {role} on {host.name}: {error}",
                "a role's variables make a state a host can have",
                f"correct the variables of role {role} in the inventory",
            )
    return {
        "cluster": _cluster(choices.hosts),
        "host": {
            "name": host.name,
            "rank": order.index(host.name),
            "is_head": host.is_head,
            "fabric": fabric,
        },
        "roles": roles,
        "desired": desired,
        "refusals": [],
    }
