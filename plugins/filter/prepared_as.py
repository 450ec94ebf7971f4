# SPDX-License-Identifier: Apache-2.0
"""The filter `prepared_as`: whether one bad host stops the others while they are prepared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks import attendance

DOCUMENTATION = """
name: prepared_as
short_description: Tell whether hosts are prepared as one cluster or as racks
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - In one rack, or without any, a host that fails stops the run for all. In several racks it stops itself only.
options:
  _input:
    description: The groups of the inventory with their hosts, the variable C(groups).
    type: dict
    required: true
"""

EXAMPLES = """
- name: Say how hosts are prepared
  ansible.builtin.debug:
    msg: "{{ groups | firstlight.cluster.prepared_as }}"
"""

RETURN = """
_value:
  description: V(racks) where hosts of the group C(cluster) are in several groups C(rack_NAME), else V(cluster).
  type: str
  sample: racks
"""


def prepared_as(groups: object) -> str:
    """One of both words."""
    if not isinstance(groups, Mapping):
        raise AnsibleFilterError(
            f"prepared_as takes the groups of the inventory, found {type(groups).__name__}: write "
            "`groups | firstlight.cluster.prepared_as`"
        )
    return attendance.prepared_as(groups)


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"prepared_as": prepared_as}
