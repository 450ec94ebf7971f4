# SPDX-License-Identifier: Apache-2.0
"""Refine a host's plan with the ports and RDMA devices found on it, replacing the names assumed before.

Pure, and run on the controller: the same observation always gives the same plan.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.rails import Problem, find_port
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.rdma import link_speed, roce_mtu
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.fabric_environment import (
    device_words,
    fabric_environment,
    rdma_environment,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving import inference_server, ray_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import (
    desired_state,
    host_state,
    is_host_specific,
)

from ..exposed_roles import leaving, leftover_notes

Plan = dict[str, Any]
Ports = Mapping[str, Mapping[str, Any]]

_CHANGED = ("preflight", "fabric_network", "firewall", "ray_cluster", "inference_server")
"""Roles whose variables name ports or RDMA devices."""


def host_plan(plan: Mapping[str, Any], observation: Mapping[str, Any]) -> Plan:
    """Return the plan for the observed host. `errors` says why a rail has no port there, one line each."""
    rails = list(plan["host"].get("fabric") or [])
    ports: Ports | None = observation.get("fabric")
    found = [_found(entry, ports, observation) for entry in rails]
    errors = [f"{plan['host'].get('name')}: {problem.sentence}" for _, problem in found if problem is not None]
    names = [name for name, _ in found if name is not None]
    notes = [
        *_notes(plan, names, ports or {}),
        *_slow_notes(names, ports or {}, plan.get("fabric") or {}),
        *leftover_notes(plan, observation),
    ]
    refined: Plan = {**plan, "errors": errors, "notes": notes, "leaving": leaving(plan, observation)}
    if not rails or ports is None or not plan.get("roles"):
        return refined
    renamed = dict(zip(_paper_names(plan, rails), (name for name, _ in found), strict=True))
    if len(names) < len(rails):
        return _without_some(refined, renamed)
    return _with_ports(refined, rails, renamed, names, ports)


def host_desired(plan: Mapping[str, Any], observation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the desired states of the observed host by role, for a plan returned by host_plan."""
    roles = plan.get("roles") or {}
    return {
        role: host_state(role, roles[role], observation) if state and is_host_specific(role) else state
        for role, state in plan["desired"].items()
    }


def _found(
    entry: Mapping[str, Any], ports: Ports | None, observation: Mapping[str, Any]
) -> tuple[str | None, Problem | None]:
    subnet = str(ipaddress.ip_interface(entry["address"]).network)
    if ports is not None:
        return find_port(subnet, entry, ports)
    if entry.get("port"):
        return str(entry["port"]), None  # checked against everything else that is known about it
    reason = (observation.get("errors") or {}).get("fabric") or "they were not read"
    return None, Problem(
        f"rail {subnet} has no port, because the ports of the host are not known ({reason})", "run again"
    )


def _paper_names(plan: Mapping[str, Any], rails: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names that the plan's roles use for the ports so far."""
    listed = ((plan["roles"].get("fabric_network") or {}).get("fabric_network_ports")) or []
    by_address = {str(entry.get("address")): str(entry.get("port")) for entry in listed if isinstance(entry, Mapping)}
    return [str(entry.get("port") or by_address.get(str(entry["address"])) or "") for entry in rails]


def _without_some(plan: Plan, renamed: Mapping[str, str | None]) -> Plan:
    """Return a plan that is refused, usable for verification: a missing port is not looked for by its assumed name."""
    network = _renamed(plan["roles"].get("fabric_network"), renamed)
    desired = dict(plan.get("desired") or {})
    if network and desired.get("fabric_network"):
        desired["fabric_network"] = desired_state("fabric_network", network)
    return {**plan, "roles": {**plan["roles"], "fabric_network": network}, "desired": desired}


def _with_ports(
    plan: Plan,
    rails: Sequence[Mapping[str, Any]],
    renamed: Mapping[str, str | None],
    names: Sequence[str],
    ports: Ports,
) -> Plan:
    facts = plan.get("fabric") or {}
    here = [ports.get(name) or {} for name in names]
    devices = device_words(here)
    roles: dict[str, Any] = {role: _renamed(variables, renamed) for role, variables in plan["roles"].items()}
    if roles.get("fabric_network") and not facts.get("own_rdma"):
        entries = [{**entry, "port": name} for entry, name in zip(rails, names, strict=True)]
        roles["fabric_network"] |= {"fabric_network_rdma": rdma_wanted(entries, facts, ports)}
    slow = [one for port in here if (one := _slower(port, facts))]
    if slow and roles.get("fabric_network"):
        slowest = min(slow, key=lambda one: int(one["speed_mbit"]))
        roles["fabric_network"] |= {"fabric_network_minimum_bandwidth": dict(slowest["minimum_bandwidth"])}
    fabric = (roles.get("firewall") or {}).get("firewall_fabric") or {}
    if fabric.get("interfaces"):
        interfaces = [renamed.get(name) or name for name in fabric["interfaces"]]
        roles["firewall"] |= {"firewall_fabric": {**fabric, "interfaces": interfaces}}
    told = rdma_environment(devices, facts.get("qos")) if facts.get("rdma") else {}
    for role in ("ray_cluster", "inference_server"):
        if not _has_ranks(role, roles.get(role)):
            continue
        given = {
            name: value
            for name, value in (roles[role].get(f"{role}_environment") or {}).items()
            if name in (facts.get("own_environment") or ())
        }
        roles[role] |= {f"{role}_interface": names[0], f"{role}_environment": {**told, **given}}
    host = {
        **plan["host"],
        "fabric": [
            {**entry, "port": name, **_shown(port)} for entry, name, port in zip(rails, names, here, strict=True)
        ],
        "environment": fabric_environment(names, bool(facts.get("rdma")), devices, facts.get("qos")),
        "launch": _launched(plan["host"].get("launch") or [], roles),
    }
    desired = {
        role: desired_state(role, roles[role]) if state and role in _CHANGED else state
        for role, state in (plan.get("desired") or {}).items()
    }
    return {**plan, "host": host, "roles": roles, "desired": desired}


def _shown(port: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields shown of a port that was found."""
    fields = ("cage", "half", "driver", "pci", "rdma_device", "link_layer", "carrier", "speed_mbit")
    return {"found": {field: port[field] for field in fields}} if port else {}


def _has_ranks(role: str, variables: Mapping[str, Any] | None) -> bool:
    """Whether this role starts ranks that talk over the fabric: Ray nodes do, and servers that are ranks."""
    if not variables or role == "ray_cluster":
        return bool(variables)
    profile = PROFILES.get(str(variables.get("inference_server_profile")))
    return profile is not None and profile.ranked


def _launched(commands: Sequence[Mapping[str, Any]], roles: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the launch commands with the ports that were found; those that no role starts are unchanged."""
    anew: dict[str, Mapping[str, Any]] = {}
    if _has_ranks("ray_cluster", roles.get("ray_cluster")):
        anew["ray"] = ray_cluster.launch(roles["ray_cluster"])
    if _has_ranks("inference_server", roles.get("inference_server")):
        anew |= {one["name"]: one for one in inference_server.launch(roles["inference_server"])}
    return [anew.get(str(command.get("name")), command) for command in commands]


def _renamed(value: Any, names: Mapping[str, str | None]) -> Any:
    """Rename ports in a nested value, wherever a list of ports or a `port` key holds one."""
    if isinstance(value, Mapping):
        return {
            key: names.get(one, one) if key == "port" and isinstance(one, str) else _renamed(one, names)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    return value


def rdma_wanted(
    rails: Iterable[Mapping[str, Any]], facts: Mapping[str, Any], ports: Ports | None = None
) -> list[dict[str, Any]]:
    """Return what the RDMA devices of these ports must show, as role fabric_network takes it; empty without RDMA."""
    if not facts.get("rdma"):
        return []
    wanted = []
    for entry in rails:
        layer = facts.get("link_layer")
        slower = _slower((ports or {}).get(str(entry["port"])), facts)
        one = {
            "port": str(entry["port"]),
            **_given("speed_mbit", slower["speed_mbit"] if slower else facts.get("speed_mbit")),
            **_given("link_layer", layer),
        }
        # InfiniBand has neither RoCE's GIDs nor an MTU that follows the port's.
        if layer == "Ethernet" or ((ports or {}).get(one["port"]) or {}).get("link_layer") != "InfiniBand":
            one |= {"address": str(entry["address"]).partition("/")[0], "active_mtu": roce_mtu(int(entry["mtu"]))}
        wanted.append(one)
    return wanted


def _slower(port: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the profile's entry for a port that negotiated less than the planned speed, if the profile accepts it."""
    speed = link_speed(port or {})
    if speed is None or speed >= (facts.get("speed_mbit") or 0):
        return None
    return next((one for one in facts.get("slower") or () if one["speed_mbit"] == speed), None)


def _slow_notes(names: Sequence[str], ports: Ports, facts: Mapping[str, Any]) -> list[str]:
    """Return notes on links below the hardware's speed that are accepted, with the cost; one line per speed."""
    passed: dict[int, tuple[str, list[str]]] = {}
    for name in names:
        slower = _slower(ports.get(name), facts)
        if slower:
            passed.setdefault(slower["speed_mbit"], (str(slower["cost"]), []))[1].append(name)
    wanted = (facts.get("speed_mbit") or 0) // 1000
    return [
        f"{', '.join(listed)} at {speed // 1000} of {wanted} Gb/s: {cost}; set the switch port to {wanted}G, or write "
        f"speed_gbit: {speed // 1000} in firstlight_fabric where it supports no more"
        for speed, (cost, listed) in passed.items()
    ]


def _given(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}


def _notes(plan: Mapping[str, Any], names: Sequence[str], ports: Ports) -> list[str]:
    """Return notes on RDMA devices behind the rails that are unused, and on InfiniBand, which needs no rail."""
    rails, facts = plan["host"].get("fabric"), plan.get("fabric") or {}
    unused = [str(port["rdma_device"]) for port in map(ports.get, names) if port and port.get("rdma_device")]
    if unused and not facts.get("rdma", True):
        told = f"RDMA devices {', '.join(unused)} are behind the rails and not used, which is several times slower"
        return [f"{told}: set firstlight_fabric.rdma to true to use them"]
    infiniband = [port["rdma_device"] for port in ports.values() if port.get("link_layer") == "InfiniBand"]
    if infiniband and not rails:
        return [f"InfiniBand on {', '.join(sorted(infiniband))}: RDMA over it needs no rail, and none is planned"]
    return []
