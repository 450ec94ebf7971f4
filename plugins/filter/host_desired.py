# SPDX-License-Identifier: Apache-2.0
"""The filter `host_desired`: the plan's states for the host that was observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils import host_plan as core

DOCUMENTATION = """
name: host_desired
short_description: Turn a plan into the states wanted of the host that was observed
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - A plan is made before a host is seen. Whether a fabric manager belongs to its driver, which kernel's headers, what
    else of the driver's release has to be held, and which ports the rails are on, only an observation knows.
  - The result is C(firstlight_plan.desired) with those parts in it.
positional: observation
options:
  _input:
    description: The host's plan, C(firstlight_plan).
    type: dict
    required: true
  observation:
    description: The value C(observation) that M(firstlight.cluster.observe) returned for C(firstlight_plan.observe).
    type: dict
    required: true
"""

EXAMPLES = """
- name: Keep what is wanted of this host
  ansible.builtin.set_fact:
    firstlight_desired: "{{ firstlight_plan | firstlight.cluster.host_desired(firstlight_observation) }}"
"""

RETURN = """
_value:
  description: Desired states by role, as P(firstlight.cluster.differences#filter) compares them.
  type: dict
"""


def host_desired(plan: object, observation: object) -> dict[str, Any]:
    """The desired states of a plan, refined by an observation of the host."""
    if not isinstance(plan, Mapping) or not isinstance(observation, Mapping) or "desired" not in plan:
        raise AnsibleFilterError(
            f"host_desired takes a host's plan and an observation, found {type(plan).__name__} and "
            f"{type(observation).__name__}: write `firstlight_plan | firstlight.cluster.host_desired(observation)`"
        )
    try:
        return core.host_desired(plan, observation)
    except (ValueError, TypeError, KeyError) as error:
        raise AnsibleFilterError(f"host_desired cannot refine this plan: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"host_desired": host_desired}
