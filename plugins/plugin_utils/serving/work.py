# SPDX-License-Identifier: Apache-2.0
"""Decide what must be done for a cluster to serve as planned, from observations and the events of this run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import SUPERVISOR_UNIT
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES

Facts = Mapping[str, Mapping[str, Any]]

_ROLES = ("ray_cluster", "inference_server", "supervisor")
_OWN_PACE = frozenset({"group"})
"""Kinds of difference left to the supervisor: whether a group currently serves, is starting or waiting."""
_UNKNOWN_UNIT = {"load": "not-found"}


def serving_work(hosts: Facts, *, full: bool = False) -> dict[str, bool]:
    """Return the work for the cluster as a whole: a difference on one node affects all of them.

    Each host has its `plan`, `pending` (differences by role), and events of this run that concern the engine:
    `runtime_restarted`, `ray_restarted`, `venv_switched`, `secret_differs`.

    - `ray`: run the role of Ray
    - `restart`: restart the server although it does not differ itself
    - `server`: run the role of the server
    - `any`: any of these, or the supervisors' role must run
    - `stop`: stop the supervisors before the changes, so that they do not start and stop units meanwhile
    """
    changed = _any(hosts, "secret_differs") or _any(hosts, "runtime_restarted")
    begun = full or changed
    ray = _planned(hosts, "ray_cluster") and (begun or _pending(hosts, "ray_cluster"))
    # A server that spans a cluster stops whichever of its nodes restarts.
    restart = any(_any(_driven(hosts), fact) for fact in ("runtime_restarted", "venv_switched", "ray_restarted"))
    server = _planned(hosts, "inference_server") and (begun or restart or _pending(hosts, "inference_server"))
    return {
        "ray": ray,
        "restart": restart,
        "server": server,
        "any": ray or server or full or _pending(hosts, "supervisor"),
        "stop": _has_supervisors(hosts) and (changed or restart or any(_pending(hosts, role) for role in _ROLES)),
    }


def _driven(hosts: Facts) -> Facts:
    """Return the hosts without which the server stops: all of them, or with Ray Serve only the head, as replicas
    elsewhere continue."""
    plans = {host: facts.get("plan") or {} for host, facts in hosts.items()}
    profiles = {str((plan.get("cluster") or {}).get("profile")) for plan in plans.values()}
    if not any(name in PROFILES and PROFILES[name].spread for name in profiles):
        return hosts
    return {host: hosts[host] for host, plan in plans.items() if (plan.get("host") or {}).get("is_head")}


def _has_supervisors(hosts: Facts) -> bool:
    """Return whether there is a supervisor to stop: on bare hosts systemd knows no such unit."""
    pending = [(facts.get("pending") or {}).get("supervisor") or () for facts in hosts.values()]
    return not all(
        any((one["kind"], one["key"], one.get("observed")) == ("unit", SUPERVISOR_UNIT, _UNKNOWN_UNIT) for one in found)
        for found in pending
    )


def _any(hosts: Facts, fact: str) -> bool:
    return any(bool(facts.get(fact)) for facts in hosts.values())


def _planned(hosts: Facts, role: str) -> bool:
    """Return whether the role is planned on any host."""
    return any(((facts.get("plan") or {}).get("roles") or {}).get(role) is not None for facts in hosts.values())


def _pending(hosts: Facts, role: str) -> bool:
    return any(
        one["kind"] not in _OWN_PACE for facts in hosts.values() for one in (facts.get("pending") or {}).get(role) or ()
    )
