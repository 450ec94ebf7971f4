# SPDX-License-Identifier: Apache-2.0
"""The filter `removal`: what it means to take a host out of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.grow.removal import (
    inventory_words,
    removal_problems,
    stops,
)

DOCUMENTATION = """
name: removal
short_description: Judge the removal of a host, and say what to write into the inventory
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Compares the plans of the hosts with and without the one that goes. The others must stay where they are.
positional: rest, host, place, serving, left
options:
  _input:
    description: The plans of all hosts by name.
    type: dict
    required: true
  rest:
    description: The plans of the hosts that stay.
    type: dict
    required: true
  host:
    description: The host that goes.
    type: str
    required: true
  place:
    description: Its C(firstlight_rack), where it has one.
    type: dict
    default: {}
  serving:
    description: Settings of C(firstlight_serving) that were named for the rest.
    type: dict
    default: {}
  left:
    description: What of serving was found on it, in words.
    type: list
    elements: str
    default: []
"""

EXAMPLES = """
- name: Say what to write into the inventory
  ansible.builtin.debug:
    msg: "{{ (present.plans | firstlight.cluster.removal(rest.plans, 'spark3')).lines }}"
"""

RETURN = """
_value:
  description:
    - C(problems) for which nothing may be done, C(stops) with what stops serving in words, and C(lines) for the
      inventory.
  type: dict
"""


def removal(
    present: object,
    rest: object,
    host: str,
    place: Mapping[str, Any] | None = None,
    serving: Mapping[str, Any] | None = None,
    left: Sequence[str] = (),
) -> dict[str, Any]:
    """How it stands."""
    if not isinstance(present, Mapping) or not isinstance(rest, Mapping):
        raise AnsibleFilterError(
            f"removal takes the plans with and without a host, found {type(present).__name__} and "
            f"{type(rest).__name__}: "
            "write `present.plans | firstlight.cluster.removal(rest.plans, 'spark3')`"
        )
    return {
        "problems": removal_problems(present, rest),
        "stops": stops(present.get(host) or {}, list(left)),
        "lines": inventory_words(host, place, serving),
    }


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"removal": removal}
