# SPDX-License-Identifier: Apache-2.0
"""The filter `facing_found`: which of the roles that face others have left something on a host."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core.facing import found

DOCUMENTATION = """
name: facing_found
short_description: Tell whether a host has an endpoint, a page of metrics or a firewall
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Whatever the plan of the host says, which a teardown does not go by.
options:
  _input:
    description: An observation in which the units of these roles were looked at.
    type: dict
    required: true
"""

EXAMPLES = """
- name: Say what goes
  ansible.builtin.debug:
    msg: "{{ seen.observation | firstlight.cluster.facing_found }}"
"""

RETURN = """
_value:
  description: Names of roles, of C(firewall), C(endpoint) and C(monitoring).
  type: list
  elements: str
"""


def facing_found(observation: object) -> list[str]:
    """The roles."""
    if not isinstance(observation, Mapping):
        raise AnsibleFilterError(
            f"facing_found takes an observation, found {type(observation).__name__}: write `seen.observation | "
            "firstlight.cluster.facing_found`"
        )
    return found(observation)


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[[object], list[str]]]:
        """Names and functions."""
        return {"facing_found": facing_found}
