# SPDX-License-Identifier: Apache-2.0
"""The filter `hosts_where`: select the hosts for which a fact is true."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

DOCUMENTATION = """
name: hosts_where
short_description: Select the hosts for which a fact is true
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
- name: Show the hosts with a pending reboot
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
    """Return the hosts for which the fact is true."""
    if isinstance(hosts, str) or not isinstance(hosts, Iterable) or not isinstance(hostvars, Mapping):
        raise TypeError(
            f"this takes host names and hostvars, found {type(hosts).__name__} and {type(hostvars).__name__}: "
            f"write `{USAGE}`"
        )
    return [str(name) for name in hosts if _value_at(hostvars[name], fact)]


def _value_at(variables: Any, path: str) -> Any:
    """Return the value at a dotted path; None if there is none."""
    value = variables
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"hosts_where": hosts_where}
