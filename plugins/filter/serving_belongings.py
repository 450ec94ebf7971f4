# SPDX-License-Identifier: Apache-2.0
"""The filter `serving_belongings`: what of a host belongs to what its plan serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.switch import belongings

DOCUMENTATION = """
name: serving_belongings
short_description: List what of a host belongs to what its plan serves
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - What is free once nothing serves, and what goes with a teardown.
options:
  _input:
    description: The plan of a host.
    type: dict
    required: true
"""

EXAMPLES = """
- name: Wait until nothing is left
  firstlight.cluster.serving_wait:
    until: idle
    ports: "{{ (firstlight_plan | firstlight.cluster.serving_belongings).ports }}"
"""

RETURN = """
_value:
  description: C(ports) of clients, replicas and Ray, C(directories) of weights, and C(references) of pinned images.
  type: dict
  sample: {"ports": [290, 6379], "directories": [], "references": []}
"""


def serving_belongings(plan: object) -> dict[str, Any]:
    """The lists."""
    if not isinstance(plan, Mapping):
        raise AnsibleFilterError(
            f"serving_belongings takes a host's plan, found {type(plan).__name__}: write `firstlight_plan | "
            "firstlight.cluster.serving_belongings`"
        )
    return belongings(plan)


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"serving_belongings": serving_belongings}
