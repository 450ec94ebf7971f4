# SPDX-License-Identifier: Apache-2.0
"""The filter `repin_decision`: what a re-pin does with a host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core import driver
from ansible_collections.firstlight.cluster.plugins.module_utils.core.gpu import health
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.judge import Terms, decide
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.paper import held_back

DOCUMENTATION = """
name: repin_decision
short_description: Decide what a re-pin does with a host
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - A host that an earlier run left half-way goes on where it stopped. One that was not well before is left alone. A
    factory driver, a host that was rebooted too often, and a re-pin to yet another stack are refused.
positional: plan, observation, pending, reboots_max, serves
options:
  _input:
    description: What M(firstlight.cluster.repin_host) returned for the action C(read).
    type: dict
    required: true
  plan:
    description: The host's plan with the new stack.
    type: dict
    required: true
  observation:
    description: What M(firstlight.cluster.observe) found, asked for what the present stack wants.
    type: dict
    required: true
  pending:
    description: Where the host differs from the new stack, by role.
    type: dict
    required: true
  reboots_max:
    description: How often a host may be rebooted for re-pins in 12 hours.
    type: int
    default: 4
  serves:
    description: Whether what serves is the re-pin's business, too.
    type: bool
    default: true
"""

EXAMPLES = """
- name: Decide
  ansible.builtin.set_fact:
    repin_decision: "{{ reading | firstlight.cluster.repin_decision(firstlight_plan, observation, pending) }}"
"""

RETURN = """
_value:
  description:
    - C(action) is move, back, done, leave or refuse, C(reasons) says why, and C(resumes) is the state at which an
      earlier run stopped.
  type: dict
"""


PARTS = 4


def repin_decision(
    reading: object, plan: object, observation: object, pending: object, reboots_max: int = 4, serves: bool = True
) -> dict[str, Any]:
    """The decision as plain data."""
    given = [one for one in (reading, plan, observation, pending) if isinstance(one, Mapping)]
    if len(given) < PARTS:
        raise AnsibleFilterError(
            "repin_decision takes four mappings: what repin_host read, the plan, an observation and what is pending"
        )
    return _decide(*given, reboots_max=int(reboots_max), serves=bool(serves))


def _decide(
    reading: Mapping[str, Any],
    plan: Mapping[str, Any],
    observation: Mapping[str, Any],
    pending: Mapping[str, Any],
    *,
    reboots_max: int,
    serves: bool,
) -> dict[str, Any]:
    gpus = ((plan.get("desired") or {}).get("preflight") or {}).get("gpus") or {}
    terms = Terms(
        expected_gpus=gpus.get("count"),
        wanted_gpus=((plan.get("desired") or {}).get("gpu_verify") or {}).get(health.KIND),
        held_back=held_back(plan),
        obstacles=[*_obstacles(plan, observation), *(_unconnected(plan) if serves else [])],
        reboots_max=reboots_max,
        serves=serves,
    )
    return decide(str(plan["cluster"]["stack"]), observation, reading, pending, terms).document()


def _obstacles(plan: Mapping[str, Any], observation: Mapping[str, Any]) -> list[str]:
    """Why the driver of this host must not be changed, by the same rules as when it is installed."""
    variables = (plan.get("roles") or {}).get("nvidia_driver") or {}
    state = (plan.get("desired") or {}).get("nvidia_driver") or {}
    if held_back(plan) or not state or not observation.get("driver"):
        return []
    mig_ok, signing_ok = (bool(variables.get(f"nvidia_driver_{name}_ok")) for name in ("mig", "signing"))
    return driver.problems(observation["driver"], state.get("packages") or {}, mig_ok, signing_ok, state.get("driver"))


def _unconnected(plan: Mapping[str, Any]) -> list[str]:
    """Why a rail of this host has no port: what serves would be told to use one that is not there."""
    name = (plan.get("host") or {}).get("name")
    return [str(one).removeprefix(f"{name}: ") for one in plan.get("refusals") or []]


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"repin_decision": repin_decision}
