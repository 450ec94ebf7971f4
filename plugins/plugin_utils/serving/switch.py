# SPDX-License-Identifier: Apache-2.0
"""Checks before a cluster switches to another model, and the report afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES

_OWN = ("model_weights", "ray_cluster", "inference_server", "supervisor", "inference_image")
"""Roles whose desired state may depend on the model."""
_SHAPE = ("inference_server_profile", "inference_server_replicas", "inference_server_runtime")
"""Variables whose change requires another set of units."""


def resources(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the listening ports of a host's plan, its weights directories and its pinned images."""
    roles = plan.get("roles") or {}
    directory = (roles.get("model_weights") or {}).get("model_weights_directory")
    image = roles.get("inference_image") or {}
    # A locally built image has no registry reference, but its base image has.
    pinned = (image.get("inference_image_reference"), (image.get("inference_image_recipe") or {}).get("base"))
    return {
        "ports": _ports(plan),
        "directories": [str(directory)] if directory else [],
        "references": [str(reference) for reference in pinned if reference],
    }


def other_model(seen: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    """Return the model that the head's supervisor requests if the head's plan has another one; else empty."""
    planned = ((plan.get("roles") or {}).get("inference_server") or {}).get("inference_server_served_name")
    groups = (seen.get("config") or {}).get("groups") or {}
    asked = [str(group.get("model") or "") for group in groups.values()]
    return next((model for model in asked if planned and model and model != planned), "")


def _ports(plan: Mapping[str, Any]) -> list[int]:
    """Return the ports for clients, replicas and Ray."""
    roles = plan.get("roles") or {}
    server, ray = roles.get("inference_server") or {}, roles.get("ray_cluster") or {}
    found = [ray.get("ray_cluster_port")] if (plan.get("host") or {}).get("is_head") else []
    port = server.get("inference_server_port")
    if port and (plan.get("host") or {}).get("is_head"):
        profile = PROFILES.get(str(server.get("inference_server_profile")))
        more = int(server.get("inference_server_replicas") or 0) if profile and profile.replicated else 0
        found += [int(port) + number for number in range(more + 1)]
    return sorted({int(one) for one in found if one})


def switch_problems(
    present: Mapping[str, Mapping[str, Any]],
    wanted: Mapping[str, Mapping[str, Any]],
    pending: Mapping[str, Mapping[str, Sequence[Any]]],
    drained: Mapping[str, Any],
) -> list[str]:
    """Return the reasons why the model must not be switched now; empty if it may be.

    `present` and `wanted` are the hosts' plans, `pending` the differences from the wanted plan by host and role,
    `drained` the markers of hosts out of service.
    """
    problems = []
    for host, plan in wanted.items():
        problems += [f"{host}: {problem}" for problem in _other_shape(present.get(host) or {}, plan)]
        others = sorted(role for role, found in (pending.get(host) or {}).items() if found and role not in _OWN)
        if others:
            problems.append(f"{host} differs from the plan in {', '.join(others)}: run site.yml first")
    problems += [
        f"{host} is out of service: run playbooks/uncordon.yml first"
        for host, marker in drained.items()
        if marker is not None
    ]
    return problems


def _other_shape(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    before = (present.get("roles") or {}).get("inference_server") or {}
    after = (wanted.get("roles") or {}).get("inference_server") or {}
    if bool(before) != bool(after):
        return ["the other plan has a server where the current one has none, or the reverse"]
    return [
        f"{name.removeprefix('inference_server_')} would change from {before.get(name)!r} to {after.get(name)!r}, "
        "expected only another model: change the inventory and run site.yml"
        for name in _SHAPE
        if before.get(name) != after.get(name)
    ]


def inventory_lines(present: Mapping[str, Any], wanted: Mapping[str, Any], named: Mapping[str, Any]) -> list[str]:
    """Return the lines for the inventory with which the next run of site.yml keeps the new model."""
    cluster = wanted.get("cluster") or {}
    weights = ((wanted.get("roles") or {}).get("model_weights")) or {}
    lines = [f"firstlight_model: {cluster.get('model')}"]
    if named.get("revision"):
        lines.append(f"firstlight_model_revision: {weights.get('model_weights_revision')}")
    served = {**(named.get("serving") or {})}
    lines += [f"firstlight_serving.{key}: {value!r}" for key, value in sorted(served.items())]
    before = ((present.get("roles") or {}).get("inference_server") or {}).get("inference_server_served_name")
    after = ((wanted.get("roles") or {}).get("inference_server") or {}).get("inference_server_served_name")
    if before and after and before != after:
        lines.append(f"(clients now ask for the model {after}, not {before})")
    return lines


def group_state(
    facts: Mapping[str, Mapping[str, Any]], answering: Sequence[str], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Evaluate the switch from the facts of all hosts so far.

    - `problems`: reasons why nothing may be done
    - `pending`: whether anything about serving differs from the plan of the new model
    - `failed`: failures of the new model by host; `lost`: failures of the rollback by host
    - `verdict`: why the run fails, if it does; `lines`: the lines for the inventory
    """
    present = {host: dict(one.get("present") or {}) for host, one in facts.items()}
    wanted = {host: dict(one.get("wanted") or {}) for host, one in facts.items()}
    pending = {host: one.get("pending") or {} for host, one in facts.items()}
    drained = {host: ((one.get("seen") or {}).get("serving") or {}).get("drained") for host, one in facts.items()}
    silent = [host for host in facts if host not in answering]
    began = any("new" in one for one in facts.values())
    failed = {host: str(one["new"]["problem"]) for host, one in facts.items() if (one.get("new") or {}).get("problem")}
    lost = {host: str(one["old"]["problem"]) for host, one in facts.items() if (one.get("old") or {}).get("problem")}
    if began:
        failed |= dict.fromkeys(silent, "it no longer answers")
    problems = [] if began else [f"{host} does not answer" for host in silent]
    first = next(iter(facts), "")
    return {
        "problems": [*problems, *switch_problems(present, wanted, pending, drained)],
        "pending": any(found for one in pending.values() for role, found in one.items() if role in _OWN),
        "failed": failed,
        "lost": lost,
        "verdict": verdict(failed, lost, present.get(first) or {}, wanted.get(first) or {}),
        "lines": inventory_lines(present.get(first) or {}, wanted.get(first) or {}, named),
    }


def verdict(
    failed: Mapping[str, str], lost: Mapping[str, str], present: Mapping[str, Any], wanted: Mapping[str, Any]
) -> str:
    """Return why the new model does not serve and what does instead; empty on success."""
    if not failed:
        return ""
    new, old = ((plan.get("cluster") or {}).get("model") for plan in (wanted, present))
    why = "; ".join(f"{host}: {problem}" for host, problem in sorted(failed.items()))
    if not lost:
        return (
            f"{new} does not serve ({why}). {old} was restored and answers. The weights of {new} stay for the next try"
        )
    left = "; ".join(f"{host}: {problem}" for host, problem in sorted(lost.items()))
    return (
        f"{new} does not serve ({why}), and {old} could not be restored ({left}). Check `firstlight logs`, and run "
        "site.yml"
    )
