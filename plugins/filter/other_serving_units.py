# SPDX-License-Identifier: Apache-2.0
"""Filter other_serving_units: the units of other profiles, which must not run beside those of this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core.engine_container import (
    KEEPER_UNIT,
    SERVING_UNITS,
)

DOCUMENTATION = """
name: other_serving_units
short_description: The units of other profiles
version_added: "0.1.0"
description:
  - All units of Ray, servers and balancer that Firstlight ever writes on a host, without those that belong there now.
    A host that served with another profile before may still run them, on memory that is needed.
  - The keeper is none of them.
positional: _input
options:
  _input:
    description: Names of the units that belong there.
    type: list
    elements: str
    required: true
author: The Firstlight authors (!UNKNOWN)
"""

EXAMPLES = """
- name: Look at the units of other profiles
  ansible.builtin.debug:
    msg: "{{ ['firstlight-server.service'] | firstlight.cluster.other_serving_units }}"
"""

RETURN = """
_value:
  description: Names of units, in the order in which they are stopped.
  type: list
  elements: str
"""


def other_serving_units(own: object) -> list[str]:
    """All that may serve on a host but these."""
    if isinstance(own, str) or not isinstance(own, Iterable):
        raise AnsibleFilterError(
            f"other_serving_units takes the names of units, found {type(own).__name__}: write them as a list"
        )
    mine = {str(name) for name in own}
    return [name for name in SERVING_UNITS if name not in mine and name != KEEPER_UNIT]


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"other_serving_units": other_serving_units}
