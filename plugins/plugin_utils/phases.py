# SPDX-License-Identifier: Apache-2.0
"""Who has something to do in which phase of a bring-up. Pure.

A play without hosts costs a run nothing: Ansible passes over it before it gives anybody a task. Where one host has
something to do, all of them are hosts of the play, and the others leave its tasks out: `any_errors_fatal` stops the
hosts of a play, and no others where one of them does not answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.preflight import problems
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state

Facts = Mapping[str, Any]

STEPS: dict[str, tuple[str, ...]] = {
    "preflight": ("preflight", "model_access"),
    "driver": ("nvidia_driver", "cuda_toolkit", "gpu_count"),
    "container_runtime": ("container_runtime",),
    "host_tuning": ("host_tuning",),
    "gpus": ("gpu_verify",),
    "firewall": ("firewall_absent", "firewall"),
    "fabric": ("fabric_network",),
    "engine": ("engine_venv",),
    "image": ("inference_image", "container_gpus"),
    "burn_in": ("gpu_burn_in",),
    "endpoint": ("endpoint_absent", "endpoint"),
    "monitoring": ("monitoring_absent", "monitoring"),
    "clients": ("client_help",),
}
"""What a host may have to do in each phase. Weights, Ray and Serve are decided for all hosts at once."""

_WHERE_IT_DIFFERS = (
    *("nvidia_driver", "cuda_toolkit", "container_runtime", "host_tuning", "firewall", "fabric_network"),
    *("engine_venv", "inference_image", "monitoring"),
)


def host_steps(plan: Facts, pending: Facts, observation: Facts, *, full: bool, checking: bool) -> list[str]:
    """What there is to do on a host that was compared. `full`: whatever differs; `checking`: a dry run."""
    roles = plan["roles"]

    def differs(*names: str) -> bool:
        return full or any(pending.get(name) for name in names)

    steps = {role: roles.get(role) is not None and differs(role) for role in _WHERE_IT_DIFFERS}
    steps |= {f"{role}_absent": role in plan["leaving"] for role in ("firewall", "endpoint", "monitoring")}
    preflight = {**(roles.get("preflight") or {}), **preflight_variables(plan, pending, observation)}
    steps["preflight"] = full or bool(problems(observation, desired_state("preflight", preflight)))
    steps["model_access"] = _asks_the_hub(plan, pending)
    # Preflight could only count them on the bus.
    steps["gpu_count"] = not checking and bool((observation.get("gpus") or {}).get("error"))
    # In check mode the driver that would make them right is not there.
    steps["gpu_verify"] = differs("gpu_verify") and not (checking and pending.get("nvidia_driver"))
    # Where driver, runtime or image are new: everything before may be right, and a container still see no GPU.
    renewed = differs("nvidia_driver", "container_runtime", "inference_image")
    steps["container_gpus"] = roles.get("inference_image") is not None and renewed and not checking
    accepts = bool((roles.get("gpu_verify") or {}).get("gpu_verify_burn_in"))
    # In check mode the driver or the engine that it needs may not be there yet.
    steps["gpu_burn_in"] = accepts and not checking
    # On every run: whether a key is the one that was decided, and a certificate nears its end, no observation can tell.
    steps["endpoint"] = roles.get("endpoint") is not None
    # A run that only checks may have brought no key yet.
    steps["client_help"] = steps["endpoint"] and bool(plan["host"].get("is_head")) and not checking
    return [step for listed in STEPS.values() for step in listed if steps[step]]


def preflight_variables(plan: Facts, pending: Facts, observation: Facts) -> dict[str, Any]:
    """What of role preflight's variables depends on what the host has already."""
    roles = plan["roles"]
    driver, due = roles.get("nvidia_driver"), False
    if driver is not None and pending.get("nvidia_driver"):
        # The next phase may install or load it.
        loads = (observation.get("driver") or {}).get("reboot_required")
        due = driver["nvidia_driver_policy"] == "install" or bool(loads)
    # Weights that are there have taken their space already.
    disk = (roles.get("preflight") or {}).get("preflight_disk") or {}
    return {"preflight_driver_due": due, "preflight_disk": disk if pending.get("model_weights") else {}}


def has_step(steps: Iterable[Iterable[str]], phase: str) -> bool:
    """Whether anybody has something to do in a phase of roles, by the `steps` of every host."""
    return any(step in STEPS[phase] for own in steps for step in own)


def _asks_the_hub(plan: Facts, pending: Facts) -> bool:
    """Whether the host will fetch the model from the hub: the head, and every host where there is no fabric to share
    it over."""
    role = plan["roles"].get("model_weights")
    if role is None or not pending.get("model_weights") or role["model_weights_source"]:
        return False
    return bool(plan["host"].get("is_head")) or not role["model_weights_share_address"]
