# SPDX-License-Identifier: Apache-2.0
"""Evaluate a change of membership: which hosts are changed and why, what restarts, and what is refused.

A run that adds, replaces or removes a host changes the others only where they depend on the cluster's members. Roles
run only where a host differs from its plan, so it is enough to check the differences before any change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.fabric_network import RECORD_FILE
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES

Facts = Mapping[str, Mapping[str, Any]]

PREPARING = (
    "nvidia_driver",
    "cuda_toolkit",
    "container_runtime",
    "host_tuning",
    "gpu_verify",
    "fabric_network",
    "firewall",
)
"""Roles of a host that is prepared but does not serve yet."""
GROUP = ("ray_cluster", "inference_server", "supervisor")
"""Roles that depend on the members of the serving group."""
_UNITS = ("ray_cluster", "inference_server")
"""Those of them whose units restart after a change; supervisors take over what is running."""
_OWN_PACE = "group"
"""The kind of difference left to the supervisor: whether a group currently serves."""
_REASONS = {"fabric_network": "the record of its connectivity test", "firewall": "the addresses of its nodes"}


def evaluate(facts: Facts, newcomers: Collection[str], *, restart: bool = False) -> dict[str, Any]:
    """Evaluate the hosts, each with its `plan` and its `pending` differences by role.

    - `problems`: reasons why nothing may be done
    - `serve`: whether the run continues with serving, or ends with prepared hosts
    - `restarts`: hosts on which serving restarts if the run continues
    - `touched`: what this run changes on each host that is not new
    - `roles`: the roles that every host matches afterwards
    - `lines`: all of it as text
    """
    pending = {host: _pending(one) for host, one in facts.items()}
    restarts = _restarts(facts, pending)
    serve = restart or not restarts
    others = [host for host in facts if host not in newcomers]
    touched = {host: _touched(facts[host], pending[host], serve=serve) for host in others}
    return {
        "problems": [
            problem for host in others for problem in _problems(host, facts[host], pending[host], serve=serve)
        ],
        "serve": serve,
        "restarts": restarts,
        "touched": touched,
        "roles": [role for role in ROLES if serve or role in PREPARING],
        "lines": [
            *(_new_host(host, pending[host], serve=serve) for host in facts if host in newcomers),
            *(f"{host}: {', '.join(what) if what else 'untouched'}" for host, what in touched.items()),
            *_serving_words(facts, restarts, bool(newcomers), restart=restart),
        ],
    }


def _pending(facts: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the differences by role in the order of a bring-up, without those left to the supervisor."""
    given = facts.get("pending") or {}
    found = {role: [one for one in given.get(role) or () if one["kind"] != _OWN_PACE] for role in ROLES}
    return {role: differences for role, differences in found.items() if differences}


def _profile(facts: Facts) -> Any:
    plan: Mapping[str, Any] = next((one["plan"] for one in facts.values() if one.get("plan")), {})
    return PROFILES.get(str((plan.get("cluster") or {}).get("profile")))


def _restarts(facts: Facts, pending: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the hosts on which serving restarts: all of them if a change reaches a model split over all hosts, or the
    head's units."""
    profile = _profile(facts)
    if profile is None or not any(role in found for found in pending.values() for role in GROUP):
        return []
    heads = [host for host, one in facts.items() if ((one.get("plan") or {}).get("host") or {}).get("is_head")]
    # The head's program starts the replicas on all hosts, and stops them when it ends.
    if not profile.several_servers or any(role in pending[head] for head in heads for role in _UNITS):
        return list(facts)
    return []


def _is_membership(role: str, difference: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Return whether a difference is due only to hosts that were added or removed."""
    if role == "fabric_network":
        variables = ((facts.get("plan") or {}).get("roles") or {}).get(role) or {}
        report = str(variables.get("fabric_network_record") or RECORD_FILE)
        return difference["kind"] == "file" and str(difference["key"]) == report
    return role == "firewall" and difference["kind"] in ("file", "ruleset")


def _problems(
    host: str, facts: Mapping[str, Any], pending: Mapping[str, Sequence[Mapping[str, Any]]], *, serve: bool
) -> list[str]:
    """Return a problem if a host that is not new differs from its plan, except where it depends on the members."""
    concerned = [role for role in ROLES if role in PREPARING or (serve and role not in (*GROUP, "preflight"))]
    drifted = [
        role for role in concerned if any(not _is_membership(role, one, facts) for one in pending.get(role) or ())
    ]
    if not drifted:
        return []
    return [
        (
            f"{host} differs from its plan in {', '.join(drifted)}, expected a host that this run leaves alone: "
            "run site.yml first, or, if it is new as well, name it too"
        )
    ]


def _touched(facts: Mapping[str, Any], pending: Mapping[str, Sequence[Mapping[str, Any]]], *, serve: bool) -> list[str]:
    found = [
        f"{role} ({reason})"
        for role, reason in _REASONS.items()
        if any(_is_membership(role, one, facts) for one in pending.get(role) or ())
    ]
    return found + [role for role in GROUP if serve and role in pending]


def _new_host(host: str, pending: Mapping[str, Any], *, serve: bool) -> str:
    roles = [role for role in pending if role != "preflight" and (serve or role in PREPARING)]
    return f"{host}: new; {', '.join(roles) if roles else 'as planned already'}"


def _serving_words(facts: Facts, restarts: Sequence[str], arrives: bool, *, restart: bool) -> list[str]:
    if not restarts:
        return ["Serving continues: nothing restarts on a host that serves."]
    plan = next(one["plan"] for one in facts.values() if one.get("plan"))
    what = (
        f"{plan['cluster'].get('profile')} over {plan['cluster'].get('size')} hosts is one service: it stops, "
        f"and starts again on {', '.join(restarts)}"
    )
    if restart:
        return [f"WHAT SERVES RESTARTS. {what}."]
    only = "the new hosts are only prepared" if arrives else "only addresses and connectivity tests are updated"
    return [f"What serves is NOT restarted, and {only}. {what}: to allow that, add -e restart_serving=true."]
