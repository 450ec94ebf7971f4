# SPDX-License-Identifier: Apache-2.0
"""The filter `grow_names`: which hosts of the cluster are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.grow.names import chosen

DOCUMENTATION = """
name: grow_names
short_description: Find the hosts of the cluster that are named by themselves or by a group
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Takes what C(-e nodes=spark4,spark5) or C(-e nodes=rack_b) brought, and refuses what is no host of the cluster, and
    the head.
positional: groups, single
options:
  _input:
    description: Names of hosts or groups, with commas between them or as a list.
    type: raw
    required: true
  groups:
    description: The groups of the inventory, C(groups).
    type: dict
    required: true
  single:
    description: Whether it must be one host.
    type: bool
    default: false
"""

EXAMPLES = """
- name: Refuse names that nobody knows
  ansible.builtin.assert:
    that: (nodes | firstlight.cluster.grow_names(groups)).problem | length == 0
"""

RETURN = """
_value:
  description: C(hosts) in the order of the inventory, and C(problem), empty where there is none.
  type: dict
  sample: {"hosts": ["spark4"], "problem": ""}
"""


def grow_names(given: object, groups: object, single: bool = False) -> dict[str, Any]:
    """The hosts."""
    if not isinstance(groups, Mapping):
        raise AnsibleFilterError(
            f"grow_names takes the groups of the inventory, found {type(groups).__name__}: write `nodes | "
            "firstlight.cluster.grow_names(groups)`"
        )
    return chosen(given, {str(name): list(hosts) for name, hosts in groups.items()}, single=bool(single))


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"grow_names": grow_names}
