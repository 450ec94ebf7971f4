# SPDX-License-Identifier: Apache-2.0
"""Decide what a re-pin does with a host, from its plans for both stacks and its observation. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.driver import driver
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu import health
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.evaluate import Terms, decide
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.paper import held_back
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.stack_set import leaving, stack_set

FACTS = {
    "reading": "__repin_read",
    "seen": "__repin_compared",
    "plan": "firstlight_plan",
    "desired": "firstlight_desired",
    "pending": "firstlight_pending",
    "present_plan": "repin_present_plan",
    "present_desired": "repin_present_desired",
}


def host_decision(facts: Mapping[str, Any], *, max_reboots: int = 4, serves: bool = True) -> dict[str, Any]:
    """Return the decision, with the target set `to`, and the `from_packages` and `from_files` to leave."""
    plan, desired, observation = facts["plan"], facts["desired"], facts["seen"]["observation"]
    planned = plan.get("desired") or {}
    held = held_back(plan)
    terms = Terms(
        expected_gpus=((planned.get("preflight") or {}).get("gpus") or {}).get("count"),
        wanted_gpus=(planned.get("gpu_verify") or {}).get(health.KIND),
        held_back=held,
        obstacles=[*_obstacles(plan, observation), *(_unconnected(plan) if serves else [])],
        max_reboots=max_reboots,
        serves=serves,
    )
    decided = decide(str(plan["cluster"]["stack"]), observation, facts["reading"], facts["pending"], terms)
    present = stack_set(facts["present_desired"], held_back(facts["present_plan"]))
    return {
        **decided.document(),
        "to": stack_set(desired, held),
        "from_packages": leaving(present, observation, {} if held else desired.get("nvidia_driver") or {}),
        "from_files": list(present["files"]),
    }


def _obstacles(plan: Mapping[str, Any], observation: Mapping[str, Any]) -> list[str]:
    """Return why the driver of this host must not be changed, by the same rules as for its installation."""
    variables = (plan.get("roles") or {}).get("nvidia_driver") or {}
    state = (plan.get("desired") or {}).get("nvidia_driver") or {}
    if held_back(plan) or not state or not observation.get("driver"):
        return []
    mig_ok, signing_ok = (bool(variables.get(f"nvidia_driver_{name}_ok")) for name in ("mig", "signing"))
    return driver.problems(observation["driver"], state.get("packages") or {}, mig_ok, signing_ok, state.get("driver"))


def _unconnected(plan: Mapping[str, Any]) -> list[str]:
    """Return why rails of this host have no port: the server would be configured with a missing port."""
    name = (plan.get("host") or {}).get("name")
    return [str(one).removeprefix(f"{name}: ") for one in plan.get("errors") or []]
