# SPDX-License-Identifier: Apache-2.0
"""The filter `serving_work`: what there is to do for a cluster to serve as planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.host_facts import facts_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.work import serving_work as work_of

DOCUMENTATION = """
name: serving_work
short_description: Say what there is to do for a cluster to serve as planned
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Puts together where the hosts of a cluster differ from their plans and what has happened in this run, from the facts
    that the playbooks keep. A group serves as a whole, so that what differs on one host is work for all.
positional: hostvars, full
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
  full:
    description: Whether every role is to run, whatever differs.
    type: bool
    default: false
"""

EXAMPLES = """
- name: Show what there is to do
  ansible.builtin.debug:
    msg: "{{ groups['cluster'] | firstlight.cluster.serving_work(hostvars) }}"
"""

RETURN = """
_value:
  description:
    - C(any) tells whether there is anything to do, and C(stop) whether something will change, for which the keepers are
      stopped first. C(ray) and C(server) tell whether those roles run, and C(restart) whether the server starts anew
      although nothing of its own differs.
  type: dict
  sample: {"any": true, "ray": false, "server": true, "restart": false, "stop": true}
"""

FACTS = {
    "plan": "firstlight_plan",
    "pending": "firstlight_pending",
    "runtime_restarted": "container_runtime_restarted",
    "ray_restarted": "ray_cluster_restarted",
    "venv_switched": "engine_venv_switched",
    "secret_differs": "serve_secret_differs",
}
USAGE = "groups['cluster'] | firstlight.cluster.serving_work(hostvars)"


def serving_work(hosts: object, hostvars: object, full: bool = False) -> dict[str, bool]:
    """What there is to do."""
    return work_of(facts_of(hosts, hostvars, FACTS, USAGE), full=bool(full))


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"serving_work": serving_work}
