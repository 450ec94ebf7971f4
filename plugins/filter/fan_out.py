# SPDX-License-Identifier: Apache-2.0
"""The filter `fan_out`: who fetches large files, who shares them, who takes them from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core import fan_out as core

DOCUMENTATION = """
name: fan_out
short_description: Who fetches large files, who shares them, and who takes them from there
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Of the hosts of a run, the head goes to the source and the others take the files from it over the fabric. Who has
    everything takes no part, and a head that has everything only shares.
  - In a run without the head everyone goes to the source.
positional: hosts, pending, full, shared
options:
  _input:
    description: The plan's C(cluster), of which C(head) is read.
    type: dict
    required: true
  hosts:
    description: The hosts of the run.
    type: list
    elements: str
    required: true
  pending:
    description: What of the role differs on each host, by its name. A host without an entry has everything.
    type: dict
    required: true
  full:
    description: Whether every host takes part regardless.
    type: bool
    default: false
  shared:
    description: Whether there is a fabric to share over. Without one everyone goes to the source.
    type: bool
    default: true
"""

EXAMPLES = """
- name: Say who does what
  ansible.builtin.set_fact:
    weights: "{{ firstlight_plan.cluster | firstlight.cluster.fan_out(ansible_play_hosts_all, pending) }}"
"""

RETURN = """
_value:
  description:
    - C(fetches), a list of hosts; C(shares), a host or empty; C(receives), a list of hosts; C(streams), how many files
      each of these may take at the same time.
  type: dict
  sample: {fetches: [spark0], shares: spark0, receives: [spark1, spark2], streams: 128}
"""


def fan_out(
    cluster: object, hosts: object, pending: object, full: object = False, shared: object = True
) -> dict[str, Any]:
    """The parts that the hosts take."""
    if (
        not isinstance(cluster, Mapping)
        or not isinstance(cluster.get("head"), str)
        or not isinstance(hosts, (list, tuple))
        or not isinstance(pending, Mapping)
    ):
        raise AnsibleFilterError(
            f"fan_out takes a plan's cluster, a list of hosts and a mapping, found {type(cluster).__name__}, "
            f"{type(hosts).__name__} and {type(pending).__name__}: see the example in its documentation"
        )
    lacking = {str(host): list(found) for host, found in pending.items() if isinstance(found, (list, tuple))}
    return core.fan_out(str(cluster["head"]), [str(host) for host in hosts], lacking, bool(full), bool(shared))


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"fan_out": fan_out}
