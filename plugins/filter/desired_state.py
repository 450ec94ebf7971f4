# SPDX-License-Identifier: Apache-2.0
"""The filter `desired_state`: what a role's variables mean for a host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import desired_state as state_of

DOCUMENTATION = """
name: desired_state
short_description: Turn a role's variables into the state it wants of a host
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Renders every file, package, unit and link that a role stands for, from the role's own variables.
  - The result is what M(firstlight.cluster.observe) reads and
    P(firstlight.cluster.differences#filter) compares.
positional: role
options:
  _input:
    description: The role's variables by their full names.
    type: dict
    required: true
  role:
    description: The role's name.
    type: str
    required: true
"""

EXAMPLES = """
- name: Show what host_tuning wants
  ansible.builtin.debug:
    msg: "{{ {'host_tuning_swappiness': 1} | firstlight.cluster.desired_state('host_tuning') }}"
"""

RETURN = """
_value:
  description: The desired state, in the vocabulary of C(plugins/module_utils/core/state.py).
  type: dict
  sample: {"sysctl": {"vm.swappiness": "1"}}
"""


def desired_state(variables: object, role: str) -> dict[str, Any]:
    """The state `role` wants with these variables."""
    if not isinstance(variables, Mapping):
        raise AnsibleFilterError(
            f"desired_state takes a mapping of role variables, found {type(variables).__name__}: "
            "write `{'<role>_x': ...} | firstlight.cluster.desired_state('<role>')`"
        )
    try:
        return state_of(role, variables)
    except KeyError as error:
        raise AnsibleFilterError(f"role {role} needs the variable {error}: set it") from error
    except (ValueError, TypeError) as error:
        raise AnsibleFilterError(f"variables of role {role} do not make a state: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"desired_state": desired_state}
