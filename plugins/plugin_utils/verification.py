# SPDX-License-Identifier: Apache-2.0
"""Verify all hosts from their observations, as playbooks/verify.yml does with tasks and filters. Pure functions.

Both use the comparison functions of `core`, so they cannot disagree; this module mirrors the playbook's YAML.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison import records as core
from ansible_collections.firstlight.cluster.plugins.plugin_utils.connectivity.matrix import evaluate
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.picture import table_lines
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.host_plan import host_desired, host_plan

Plan = Mapping[str, Any]
Result = Mapping[str, Any]
"""The result of module observe: `observation`, or `msg` if the host could not be observed."""

_ASKS_FOR_MORE = (
    "firstlight_full",
    "firstlight_bench_now",
    "weights_rehash",
    "gpu_verify_burn_in_force",
    "ray_cluster_token",
    "inference_server_api_key",
)
"""Variables that make a role run without differences, and secrets, which are compared where they are written."""


def fabric_of(plan: Plan, observation: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the variables of role fabric_network, with the ports that were found."""
    refined = plan if observation is None else resolved(plan, observation)["plan"]
    found: Mapping[str, Any] = refined["roles"]["fabric_network"]
    return found


def has_fabric(plan: Plan) -> bool:
    """Return whether there are fabric paths to test."""
    fabric = plan["roles"]["fabric_network"]
    return bool(fabric["fabric_network_peers"]) and fabric["fabric_network_state"] == "present"


def connectivity_arguments(host: str, fabric: Mapping[str, Any], run: str) -> dict[str, Any] | None:
    """Return the arguments of a host's connectivity test without throughput; None if it has no peers."""
    peers = _found(fabric["fabric_network_peers"])
    if not peers:
        return None
    return {
        "host": host,
        "run": run,
        "members": _members(host, fabric),
        "ports": _found(fabric["fabric_network_ports"]),
        "peers": peers,
        "rdma": bool(fabric["fabric_network_rdma"]),
        "settle": 0,  # nothing was changed just now
    }


def evaluated_fabric(fabrics: Mapping[str, Mapping[str, Any]], reports: Mapping[str, Result | None]) -> dict[str, Any]:
    """Evaluate the fabric from the reports of all hosts.

    `reports` maps a host to its result with `report` or `msg`, or to None if it was not asked.
    """
    first, fabric = next(iter(fabrics.items()))
    parts = {
        host: {
            "ports": _found(one["fabric_network_ports"]),
            "peers": _found(one["fabric_network_peers"]),
            "absent": host not in reports,
            "result": reports.get(host) or {"skipped": True},
        }
        for host, one in fabrics.items()
    }
    return evaluate(_members(first, fabric), parts, fabric["fabric_network_minimum_bandwidth"])


def requested(plan: Plan, roles: Collection[str] = ()) -> dict[str, Any]:
    """Return what to request from module observe, by role; for all roles unless some are named."""
    return {role: state for role, state in plan["observe"].items() if not roles or role in roles}


def resolved(plan: Plan, observation: Mapping[str, Any], roles: Collection[str] = ()) -> dict[str, Any]:
    """Return the observed host's resolved `plan` and its `desired` states by role."""
    refined, states = plan, plan["desired"]
    if plan.get("host"):  # a verification of a few states has no host plan
        refined = host_plan(plan, observation)
        states = host_desired(refined, observation)
    return {"plan": refined, "desired": {role: state for role, state in states.items() if not roles or role in roles}}


def wanted(plan: Plan, observation: Mapping[str, Any], roles: Collection[str] = ()) -> dict[str, Any]:
    """Return the observed host's desired states by role; for all roles unless some are named."""
    desired: dict[str, Any] = resolved(plan, observation, roles)["desired"]
    return desired


def host_records(
    plan: Plan,
    host: str,
    result: Result,
    peers: Mapping[str, Any],
    history: Mapping[str, Any] | None = None,
    roles: Collection[str] = (),
) -> list[core.Record]:
    """Return the records of all checks of one host; `peers` has the head's observation, which secrets must equal."""
    seen = result.get("observation")
    if seen is None:
        return core.silent(host, str(result.get("msg") or ""))
    return core.records(host, wanted(plan, seen, roles), seen, peers, history, plan["cluster"]["stack"])


def suspects(plan: Plan, result: Result, found: Iterable[core.Record], roles: Collection[str] = ()) -> dict[str, Any]:
    """Return what to search the host's logs for; empty if there is nothing."""
    seen = result.get("observation")
    return {} if seen is None else core.suspects(found, seen, core.driver_package(wanted(plan, seen, roles)))


def topology_lines(result: Result) -> list[str]:
    """Return the table of a host's GPU topology, if it is known."""
    health = (result.get("observation") or {}).get("gpu_health") or {}
    return list(table_lines(health["topology"], list(health.get("checks") or ()))) if health.get("topology") else []


# --- firstlight up ------------------------------------------------------------------------------------------


def beyond_a_look(plan: Plan, is_set: Callable[[str], bool]) -> list[str]:
    """Return the reasons why site.yml must run on this host even without differences; empty if there are none.

    An observation cannot show any of these.
    """
    roles = plan["roles"]
    server = roles.get("inference_server") or {}
    asked = {
        "only the endpoint's role knows its keys and its certificate": roles.get("endpoint") is not None,
        "only the burn-in knows whether its GPUs were accepted": roles["gpu_verify"]["gpu_verify_burn_in"],
        "firstlight_bench.after_bring_up measures every run": (plan.get("bench") or {}).get("after_bring_up"),
        "inference_server_restart restarts the server": server.get("inference_server_restart"),
        **{f"{name} is set": is_set(name) for name in _ASKS_FOR_MORE},
    }
    return [reason for reason, holds in asked.items() if holds]


def roles_to_do(plan: Plan, observation: Mapping[str, Any]) -> list[str]:
    """Return what makes site.yml act or refuse on the observed host, other than a difference."""
    refined = resolved(plan, observation)["plan"]
    return [*refined["errors"], *(f"{role} of an earlier run is to be removed" for role in refined["leaving"])]


def completion_questions(plan: Plan) -> list[dict[str, Any]]:
    """Return the head's test requests as options of module chat_completion: the gate of role inference_server."""
    role = plan["roles"].get("inference_server")
    if role is None:
        return []
    profile, port = PROFILES[role["inference_server_profile"]], int(role["inference_server_port"])
    common = {
        "model": role["inference_server_served_name"],
        "expect_tensor_parallel": role["inference_server_tensor_parallel"],
        "engine": profile.engine,
    }
    replicas = [
        {**common, "url": f"http://127.0.0.1:{port + 1 + one}", "service": f"firstlight-server-{one}.service"}
        for one in range(int(role["inference_server_replicas"]) if profile.replicated else 0)
    ]
    service = "firstlight-balancer.service" if profile.replicated else "firstlight-server.service"
    return [*replicas, {**common, "url": f"http://{role['inference_server_listen']}:{port}", "service": service}]


def _found(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(entry) for entry in entries if entry["port"]]


def _members(host: str, fabric: Mapping[str, Any]) -> list[str]:
    listed = [str(name) for name in fabric["fabric_network_members"]]
    return listed or sorted({host, *(str(peer["host"]) for peer in fabric["fabric_network_peers"])})
