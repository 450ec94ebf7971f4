# SPDX-License-Identifier: Apache-2.0
"""The filter `merged_logs`: what many hosts wrote, in one order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.host_facts import names_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving import logs
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.status import hosts_in_order

DOCUMENTATION = """
name: merged_logs
short_description: Put what many hosts wrote into one order
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Takes what M(firstlight.cluster.serving_logs) answered for each host.
positional: hostvars, register
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
  register:
    description: The variable in which the answers are registered.
    type: str
    default: logs_answer
"""

EXAMPLES = """
- name: Put them together
  ansible.builtin.set_fact:
    logs: "{{ ansible_play_hosts_all | firstlight.cluster.merged_logs(hostvars) }}"
"""

RETURN = """
_value:
  description: C(entries) by time, each with its C(host), C(cursors) to go on from, and C(silent) hosts with the reason.
  type: dict
"""

USAGE = "ansible_play_hosts_all | firstlight.cluster.merged_logs(hostvars)"


def merged_logs(hosts: object, hostvars: Any, register: str = "logs_answer") -> dict[str, Any]:
    """The document."""
    return logs.merged_logs(hosts_in_order(names_of(hosts, hostvars, USAGE), hostvars, register))


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"merged_logs": merged_logs}
