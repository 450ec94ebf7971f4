# SPDX-License-Identifier: Apache-2.0
"""The filter `stack_states`: the desired states by which a moved host is verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.stack_set import verified_states

DOCUMENTATION = """
name: stack_states
short_description: Choose the desired states by which a host is verified after a re-pin
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Driver, CUDA toolkit, container runtime and the GPUs, as a bring-up verifies them.
positional: back
options:
  _input:
    description: The desired states by role.
    type: dict
    required: true
  back:
    description: Only what a host that is put back is verified by beside what its journal recorded.
    type: bool
    default: false
"""

EXAMPLES = """
- name: Show what a host is verified by
  ansible.builtin.debug:
    msg: "{{ firstlight_desired | firstlight.cluster.stack_states }}"
"""

RETURN = """
_value:
  description: Desired states by role.
  type: dict
"""


def stack_states(desired: object, back: bool = False) -> dict[str, Any]:
    """The states of the roles that a re-pin moves, and of what must hold whatever was moved."""
    if not isinstance(desired, Mapping):
        raise AnsibleFilterError(
            f"stack_states takes desired states by role, found {type(desired).__name__}: "
            "write `firstlight_desired | firstlight.cluster.stack_states`"
        )
    return dict(verified_states(desired, back=bool(back)))


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"stack_states": stack_states}
