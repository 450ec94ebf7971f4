# SPDX-License-Identifier: Apache-2.0
"""The filter `client_help`: what a client of a planned endpoint needs, for the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import NoEndpointError, planned_help

DOCUMENTATION = """
name: client_help
short_description: Tell how the endpoint of a plan is asked
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Address, model, the files with the key and the authority on the controller, and a curl command that reads the key
    from its file.
  - The same as C(firstlight ask --how) shows. No secret is in it.
positional: inventory
options:
  _input:
    description: The plan of the head, C(firstlight_plan).
    type: dict
    required: true
  inventory:
    description: The directory of the inventory, C(inventory_dir), by whose name the controller keeps the keys.
    type: str
    required: true
"""

EXAMPLES = """
- name: Say how it is asked
  ansible.builtin.debug:
    msg: "{{ firstlight_plan | firstlight.cluster.client_help(inventory_dir) }}"
"""

RETURN = """
_value:
  description: Lines for people; the last one is the command.
  type: list
  elements: str
"""


def client_help(plan: object, inventory: object) -> list[str]:
    """The lines."""
    if not isinstance(plan, Mapping) or not isinstance(plan.get("roles"), Mapping):
        raise AnsibleFilterError(
            f"client_help takes the plan of the head, found {type(plan).__name__}: write `firstlight_plan | "
            "firstlight.cluster.client_help(inventory_dir)`"
        )
    try:
        return planned_help(plan["roles"], str(plan["host"]["name"]), [str(inventory or "")]).lines()
    except (NoEndpointError, KeyError) as error:
        raise AnsibleFilterError(f"client_help cannot tell how to ask: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., list[str]]]:
        """Names and functions."""
        return {"client_help": client_help}
