# SPDX-License-Identifier: Apache-2.0
"""The filter `differences`: where a host deviates from its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import (
    Difference,
    differences_by_role,
)

DOCUMENTATION = """
name: differences
short_description: Compare the desired state of roles with an observation
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Compares the desired state of each role with what M(firstlight.cluster.observe) read on a host.
  - What the observation does not know counts as different.
positional: observation, peers
options:
  _input:
    description: Desired states by role name, as C(firstlight_plan.desired).
    type: dict
    required: true
  observation:
    description: The value C(observation) that M(firstlight.cluster.observe) returned for this host.
    type: dict
    required: true
  peers:
    description: Observations of other hosts by host name, for files that must equal another host's.
    type: dict
    default: {}
"""

EXAMPLES = """
- name: Show the roles that have work to do
  ansible.builtin.debug:
    msg: "{{ firstlight_plan.desired | firstlight.cluster.differences(firstlight_observation) }}"
"""

RETURN = """
_value:
  description: A list of differences for each role, empty where the host is right.
  type: dict
  sample: {"host_tuning": [{"kind": "sysctl", "key": "vm.swappiness", "expected": "1", "observed": "60"}]}
"""


def differences(
    desired_by_role: object, observation: object, peers: Mapping[str, Any] | None = None
) -> dict[str, list[Difference]]:
    """Return the differences between each role's desired state and the observation."""
    if not isinstance(desired_by_role, Mapping) or not isinstance(observation, Mapping):
        raise AnsibleFilterError(
            "differences compares a mapping of desired states by role with one observation, found "
            f"{type(desired_by_role).__name__} and {type(observation).__name__}: "
            "write `firstlight_plan.desired | firstlight.cluster.differences(firstlight_observation)`"
        )
    try:
        return differences_by_role(desired_by_role, observation, peers)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AnsibleFilterError(f"differences cannot compare these states: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"differences": differences}
