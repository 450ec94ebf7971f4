# SPDX-License-Identifier: Apache-2.0
"""The filter `switch_group`: how a switch to another model stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.host_facts import facts_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.switch import group_state

DOCUMENTATION = """
name: switch_group
short_description: Say how the hosts of a group stand in a switch to another model
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Puts together the facts that C(playbooks/switch_model.yml) keeps of each host.
positional: hostvars, answering
options:
  _input:
    description: Names of the hosts.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variables of all hosts.
    type: dict
    required: true
  answering:
    description: The hosts that still answer, which is C(ansible_play_hosts).
    type: list
    elements: str
    required: true
  named:
    description: What was named for the new model beside its name, C(revision) and C(serving).
    type: dict
    default: {}
"""

EXAMPLES = """
- name: Stop where it must not be done
  ansible.builtin.assert:
    that: (groups['cluster'] | firstlight.cluster.switch_group(hostvars, ansible_play_hosts)).problems | length == 0
"""

RETURN = """
_value:
  description:
    - C(problems) for which nothing may be done, C(pending) tells whether anything of serving differs, C(failed) has
      what went wrong with the new model by host, C(lost) what went wrong on the way back, and C(lines) what to write
      into the inventory.
  type: dict
"""

FACTS = {
    "present": "switch_present_plan",
    "wanted": "switch_wanted_plan",
    "pending": "firstlight_pending",
    "seen": "switch_seen",
    "new": "switch_new",
    "old": "switch_old",
}
USAGE = "groups['cluster'] | firstlight.cluster.switch_group(hostvars, ansible_play_hosts)"


def switch_group(
    hosts: object, hostvars: object, answering: Iterable[str], named: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """How it stands."""
    return group_state(facts_of(hosts, hostvars, FACTS, USAGE), list(answering), named or {})


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"switch_group": switch_group}
