# SPDX-License-Identifier: Apache-2.0
"""The filter `stack_leaving`: what goes when another set comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.paper import held_back
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.stack_set import leaving

DOCUMENTATION = """
name: stack_leaving
short_description: Name the packages that go, or move along, when a host gets another set
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - The pins of the present set and, where the driver moves, what belongs to that driver without a pin.
positional: observation, desired, plan
options:
  _input:
    description: The present set, from P(firstlight.cluster.stack_set#filter).
    type: dict
    required: true
  observation:
    description: What M(firstlight.cluster.observe) found of the host as it is.
    type: dict
    required: true
  desired:
    description: The desired states of the new stack by role.
    type: dict
    required: true
  plan:
    description: The host's plan with the new stack; it says whether the driver is only verified and held.
    type: dict
    required: true
"""

EXAMPLES = """
- name: Show what goes
  ansible.builtin.debug:
    msg: "{{ present | firstlight.cluster.stack_leaving(seen.observation, firstlight_desired, firstlight_plan) }}"
"""

RETURN = """
_value:
  description: Names of packages.
  type: list
  elements: str
"""


def stack_leaving(present: object, observation: object, desired: object, plan: object) -> list[str]:
    """Names of packages that belong to the present set and not necessarily to the new one."""
    if not (
        isinstance(present, Mapping)
        and isinstance(observation, Mapping)
        and isinstance(desired, Mapping)
        and isinstance(plan, Mapping)
    ):
        raise AnsibleFilterError(
            "stack_leaving takes four mappings: the present set, an observation, the desired states and the plan"
        )
    return leaving(present, observation, {} if held_back(plan) else desired.get("nvidia_driver") or {})


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"stack_leaving": stack_leaving}
