# SPDX-License-Identifier: Apache-2.0
"""The filter `arrival`: whether the machine that answers is the one that replaces another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.grow.arrival import arrival_problem, arrival_words

DOCUMENTATION = """
name: arrival
short_description: Judge whether a machine is the one that replaces another
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - By what M(firstlight.cluster.machine_identity) found, or by what Ansible says where the host could not be reached.
positional: host, place, address, inventory
options:
  _input:
    description: The registered result.
    type: dict
    required: true
  host:
    description: The name of the host.
    type: str
    required: true
  place:
    description: Its C(firstlight_rack), where it has one.
    type: dict
    default: {}
  address:
    description: Where it is reached.
    type: str
    default: ""
  inventory:
    description: The directory of the inventory, for the command that pins a key.
    type: str
    default: DIR
"""

EXAMPLES = """
- name: Stop where it is another machine
  ansible.builtin.assert:
    that: (answer | firstlight.cluster.arrival('spark2', firstlight_rack)).problem | length == 0
"""

RETURN = """
_value:
  description: C(problem), empty where it is the right machine, and C(words) on what it is.
  type: dict
"""


def arrival(
    answer: object, host: str, place: Mapping[str, Any] | None = None, address: str = "", inventory: str = "DIR"
) -> dict[str, str]:
    """Whether it is."""
    if not isinstance(answer, Mapping):
        raise AnsibleFilterError(
            f"arrival takes a registered result, found {type(answer).__name__}: write `answer | "
            "firstlight.cluster.arrival(inventory_hostname)`"
        )
    return {
        "problem": arrival_problem(host, answer, place, address or host, inventory),
        "words": arrival_words(host, answer, place),
    }


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"arrival": arrival}
