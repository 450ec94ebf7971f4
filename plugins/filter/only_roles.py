# SPDX-License-Identifier: Apache-2.0
"""The filter `only_roles`: some roles out of what is said by role."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

DOCUMENTATION = """
name: only_roles
short_description: Keep some roles of a plan's states
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - For a host that is prepared and serves nothing yet, so that only a part of its plan holds.
positional: roles
options:
  _input:
    description: States by role, as C(firstlight_plan.observe) or C(firstlight_plan.desired).
    type: dict
    required: true
  roles:
    description: Names of the roles to keep.
    type: list
    elements: str
    required: true
"""

EXAMPLES = """
- name: Look at the fabric alone
  firstlight.cluster.observe:
    desired: "{{ firstlight_plan.observe | firstlight.cluster.only_roles(['fabric_network']) }}"
"""

RETURN = """
_value:
  description: The states of these roles.
  type: dict
"""


def only_roles(states: object, roles: Iterable[str]) -> dict[str, Any]:
    """Those states."""
    if not isinstance(states, Mapping):
        raise AnsibleFilterError(
            f"only_roles takes states by role, found {type(states).__name__}: write `firstlight_plan.observe | "
            "firstlight.cluster.only_roles(['fabric_network'])`"
        )
    wanted = set(roles)
    return {str(role): state for role, state in states.items() if role in wanted}


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"only_roles": only_roles}
