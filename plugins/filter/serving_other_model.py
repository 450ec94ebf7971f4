# SPDX-License-Identifier: Apache-2.0
"""The filter `serving_other_model`: whether a host is set up for another model than its plan has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.switch import other_model

DOCUMENTATION = """
name: serving_other_model
short_description: Say which other model a host is set up for
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - An inventory may be changed while hosts are out of service. They come back with what they were set up for.
positional: plan
options:
  _input:
    description: What M(firstlight.cluster.serving_status) found on the head, its C(serving).
    type: dict
    required: true
  plan:
    description: The plan of the head.
    type: dict
    required: true
"""

EXAMPLES = """
- name: Say what it serves
  ansible.builtin.debug:
    msg: "{{ seen.serving | firstlight.cluster.serving_other_model(firstlight_plan) }}"
"""

RETURN = """
_value:
  description: The name under which the other model is served; empty where it is the plan's, or where nothing tells.
  type: str
  sample: ""
"""


def serving_other_model(seen: object, plan: object) -> str:
    """The name."""
    if not isinstance(seen, Mapping) or not isinstance(plan, Mapping):
        raise AnsibleFilterError(
            f"serving_other_model takes what serving_status found and a plan, found {type(seen).__name__} and "
            f"{type(plan).__name__}: write `seen.serving | firstlight.cluster.serving_other_model(firstlight_plan)`"
        )
    return other_model(seen, plan)


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"serving_other_model": serving_other_model}
