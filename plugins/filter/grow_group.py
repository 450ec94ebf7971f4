# SPDX-License-Identifier: Apache-2.0
"""The filter `grow_group`: what another set of members means for every host."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.grow.members import judge
from ansible_collections.firstlight.cluster.plugins.plugin_utils.host_facts import facts_of

DOCUMENTATION = """
name: grow_group
short_description: Say who is touched and what restarts when hosts come or go
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Puts together where the hosts of a cluster differ from their plans, from the facts that the playbooks keep. Hosts
    that
    are not new may differ only in what follows from who is in the cluster.
positional: hostvars, newcomers, restart
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
  newcomers:
    description: The hosts that are new.
    type: list
    elements: str
    required: true
  restart:
    description: Whether what serves may be restarted.
    type: bool
    default: false
"""

EXAMPLES = """
- name: Say what this run does, and to whom
  ansible.builtin.debug:
    msg: "{{ (groups['cluster'] | firstlight.cluster.grow_group(hostvars, ['spark4'])).lines }}"
"""

RETURN = """
_value:
  description:
    - C(problems) for which nothing may be done, C(serve) tells whether the run goes on to what serves, C(restarts)
      has the
      hosts on which that starts anew, C(touched) what is changed on hosts that are not new, C(roles) what holds on
      every
      host afterwards, and C(lines) all of it in words.
  type: dict
"""

FACTS = {"plan": "firstlight_plan", "pending": "firstlight_pending"}
USAGE = "groups['cluster'] | firstlight.cluster.grow_group(hostvars, newcomers)"


def grow_group(hosts: object, hostvars: object, newcomers: Iterable[str], restart: bool = False) -> dict[str, Any]:
    """How it stands."""
    return judge(facts_of(hosts, hostvars, FACTS, USAGE), list(newcomers), restart=bool(restart))


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"grow_group": grow_group}
