# SPDX-License-Identifier: Apache-2.0
"""The filter `host_plan`: the plan of the host that was observed, with the ports that were found on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils import host_plan as core

DOCUMENTATION = """
name: host_plan
short_description: Put the ports that were found on a host into its plan
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - A plan is made before a host is seen. Which port a cage or a cable is, and which RDMA device is behind a port, only
    an observation knows.
  - The result is the plan with these in the variables and states of the roles. Names of ports in the inventory stay.
  - It never fails for what is wrong with a host. C(refusals) of the result has one line for each rail that has no port,
    so that a playbook can name the problems of all hosts at once; C(notes) what else was noticed, and C(leaving) the
    roles of an earlier run that the intent wants gone.
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
- name: Keep the plan of this very host
  ansible.builtin.set_fact:
    firstlight_plan: "{{ firstlight_plan | firstlight.cluster.host_plan(firstlight_observation) }}"
"""

RETURN = """
_value:
  description: The plan, with C(refusals), C(notes) and C(leaving).
  type: dict
"""


def host_plan(plan: object, observation: object) -> dict[str, Any]:
    """A plan, refined by an observation of its host."""
    if not isinstance(plan, Mapping) or not isinstance(observation, Mapping) or "host" not in plan:
        raise AnsibleFilterError(
            f"host_plan takes a host's plan and an observation, found {type(plan).__name__} and "
            f"{type(observation).__name__}: write `firstlight_plan | firstlight.cluster.host_plan(observation)`"
        )
    try:
        return core.host_plan(plan, observation)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AnsibleFilterError(f"host_plan cannot refine this plan: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"host_plan": host_plan}
