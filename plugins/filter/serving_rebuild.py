# SPDX-License-Identifier: Apache-2.0
"""The filter `serving_rebuild`: what an engine has to make anew when it starts as planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.rebuild import rebuild_notes

DOCUMENTATION = """
name: serving_rebuild
short_description: Say what an engine has to make anew
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Compares what the head is set up for with its plan. Other shards or other weights make the next start a long one.
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
- name: Say what is made anew
  ansible.builtin.debug:
    msg: "{{ seen.serving | firstlight.cluster.serving_rebuild(firstlight_plan) }}"
"""

RETURN = """
_value:
  description: Sentences; none where neither shards nor weights change, or where nothing was set up before.
  type: list
  elements: str
  sample: ["tensor parallel goes from 4 to 8: there are no engine files"]
"""


def serving_rebuild(seen: object, plan: object) -> list[str]:
    """The sentences."""
    if not isinstance(seen, Mapping) or not isinstance(plan, Mapping):
        raise AnsibleFilterError(
            f"serving_rebuild takes what serving_status found and a plan, found {type(seen).__name__} and "
            f"{type(plan).__name__}: write `seen.serving | firstlight.cluster.serving_rebuild(firstlight_plan)`"
        )
    return rebuild_notes(seen, plan)


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"serving_rebuild": serving_rebuild}
