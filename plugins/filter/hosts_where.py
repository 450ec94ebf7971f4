# SPDX-License-Identifier: Apache-2.0
"""The filter `hosts_where`: which hosts have a fact that is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.host_facts import names_of, value_at

DOCUMENTATION = """
name: hosts_where
short_description: Choose the hosts for which a fact is true
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Of these hosts, those with a fact that is neither false nor empty. A host without the fact is not among them.
positional: hostvars, fact
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
  fact:
    description: The name of the fact; for a part of it, the path with dots.
    type: str
    required: true
"""

EXAMPLES = """
- name: Name the hosts that wait for a reboot
  ansible.builtin.debug:
    msg: "{{ ansible_play_hosts | firstlight.cluster.hosts_where(hostvars, 'nvidia_driver_reboot_required') }}"
"""

RETURN = """
_value:
  description: Their names, in the order given.
  type: list
  elements: str
  sample: [spark1]
"""

USAGE = "ansible_play_hosts | firstlight.cluster.hosts_where(hostvars, 'a_fact')"


def hosts_where(hosts: object, hostvars: Any, fact: str) -> list[str]:
    """Those hosts."""
    return [name for name in names_of(hosts, hostvars, USAGE) if value_at(hostvars[name], fact)]


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"hosts_where": hosts_where}
