# SPDX-License-Identifier: Apache-2.0
"""Decide which hosts have work in which phase of a bring-up. Pure functions.

A play without hosts costs nothing: Ansible skips it before it starts any task. If one host has work, all hosts are in
the play and the others skip its tasks: when a host does not answer, `any_errors_fatal` stops only the hosts of its
play.
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
"""Possible steps of a host in each phase. Weights, Ray and Serve are decided for all hosts together."""

_WHERE_IT_DIFFERS = (
    *("nvidia_driver", "cuda_toolkit", "container_runtime", "host_tuning", "firewall", "fabric_network"),
    *("engine_venv", "inference_image", "monitoring"),
)


def host_steps(plan: Facts, pending: Facts, observation: Facts, *, full: bool, checking: bool) -> list[str]:
    """Return the steps to run on a compared host. `full`: run them even without differences; `checking`: check mode."""
    roles = plan["roles"]

    def differs(*names: str) -> bool:
        return full or any(pending.get(name) for name in names)

    steps = {role: roles.get(role) is not None and differs(role) for role in _WHERE_IT_DIFFERS}
    steps |= {f"{role}_absent": role in plan["leaving"] for role in ("firewall", "endpoint", "monitoring")}
    preflight = {**(roles.get("preflight") or {}), **preflight_variables(plan, pending, observation)}
    steps["preflight"] = full or bool(problems(observation, desired_state("preflight", preflight)))
    steps["model_access"] = _asks_the_hub(plan, pending)
    # Without a working driver, preflight could only count the GPUs on the PCI bus.
    steps["gpu_count"] = not checking and bool((observation.get("gpus") or {}).get("error"))
    # In check mode, a pending driver that would fix the GPUs is not installed.
    steps["gpu_verify"] = differs("gpu_verify") and not (checking and pending.get("nvidia_driver"))
    # After a change of driver, runtime or image, every earlier check may pass and a container still see no GPU.
    renewed = differs("nvidia_driver", "container_runtime", "inference_image")
    steps["container_gpus"] = roles.get("inference_image") is not None and renewed and not checking
    accepts = bool((roles.get("gpu_verify") or {}).get("gpu_verify_burn_in"))
    # In check mode the driver or engine it needs may not be installed yet.
    steps["gpu_burn_in"] = accepts and not checking
    # On every run: an observation cannot show whether a key is the desired one or a certificate is about to expire.
    steps["endpoint"] = roles.get("endpoint") is not None
    # In check mode no key may have been fetched yet.
    steps["client_help"] = steps["endpoint"] and bool(plan["host"].get("is_head")) and not checking
    return [step for listed in STEPS.values() for step in listed if steps[step]]


def preflight_variables(plan: Facts, pending: Facts, observation: Facts) -> dict[str, Any]:
    """Return the variables of role preflight that depend on the host's current state."""
    roles = plan["roles"]
    driver, due = roles.get("nvidia_driver"), False
    if driver is not None and pending.get("nvidia_driver"):
        # The driver phase may still install or load it.
        loads = (observation.get("driver") or {}).get("reboot_required")
        due = driver["nvidia_driver_policy"] == "install" or bool(loads)
    # Weights that are present already occupy their space.
    disk = (roles.get("preflight") or {}).get("preflight_disk") or {}
    return {"preflight_driver_due": due, "preflight_disk": disk if pending.get("model_weights") else {}}


def has_step(steps: Iterable[Iterable[str]], phase: str) -> bool:
    """Return whether any host has work in a phase of roles, given the `steps` of every host."""
    return any(step in STEPS[phase] for own in steps for step in own)


def _asks_the_hub(plan: Facts, pending: Facts) -> bool:
    """Return whether the host will fetch the model from the hub: the head does, or every host if none can share it."""
    role = plan["roles"].get("model_weights")
    if role is None or not pending.get("model_weights") or role["model_weights_source"]:
        return False
    return bool(plan["host"].get("is_head")) or not role["model_weights_share_address"]
