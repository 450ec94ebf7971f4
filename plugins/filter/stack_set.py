# SPDX-License-Identifier: Apache-2.0
"""The filter `stack_set`: what apt moves of a stack, as one set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.paper import held_back
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.stack_set import stack_set as one_set

DOCUMENTATION = """
name: stack_set
short_description: Put the packages, holds and files of driver, CUDA toolkit and container runtime into one set
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - A re-pin moves all of these in one transaction. What the plan only verifies and holds is left out. A package without
    a version only has to be there.
positional: plan
options:
  _input:
    description: The desired states by role.
    type: dict
    required: true
  plan:
    description: The host's plan; it says which roles only verify and hold.
    type: dict
    required: true
"""

EXAMPLES = """
- name: Show what would be moved
  ansible.builtin.debug:
    msg: "{{ firstlight_desired | firstlight.cluster.stack_set(firstlight_plan) }}"
"""

RETURN = """
_value:
  description:
    - The set, with C(packages) (versions by name, null for any), C(holds) (names), C(files) (by path) and C(pinned)
      (the packages that have a version).
  type: dict
"""


def stack_set(desired: object, plan: object) -> dict[str, Any]:
    """One set out of the states of all roles that install packages."""
    if not isinstance(desired, Mapping) or not isinstance(plan, Mapping):
        raise AnsibleFilterError(
            f"stack_set takes desired states and a plan, found {type(desired).__name__} and {type(plan).__name__}: "
            "write `firstlight_desired | firstlight.cluster.stack_set(firstlight_plan)`"
        )
    return one_set(desired, held_back(plan))


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"stack_set": stack_set}
