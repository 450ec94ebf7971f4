# SPDX-License-Identifier: Apache-2.0
"""The lookup `require_hosts`: the group that a playbook runs on, or an error if it has no hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: require_hosts
short_description: Return the group that a play runs on, and fail if it has no hosts
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Ansible skips a play without hosts and exits with 0. As C(hosts) of a play, this lookup fails instead, before
    anything runs, and costs a normal run no task.
  - It fails when the inventory does not exist or cannot be read in part, when the group is missing or empty, and when
    C(--limit) leaves no host of it. None of that depends on C(ansible.cfg).
  - With C(--syntax-check) and C(--list-tasks) the group may be empty.
  - With O(phase), the play is without hosts where all were compared with their plan and none has anything to do. Such a
    play costs nothing, and is not shown.
options:
  _terms:
    description: The group.
    type: list
    elements: str
    required: true
  phase:
    description:
      - The phase of a bring-up that the play is for.
      - It is for all hosts or for none. C(any_errors_fatal) stops the hosts of a play alone where one does not answer,
        and where all hosts of a play fail, Ansible ends the run for the others, too. A task is for the hosts that have
        it in C(firstlight_steps).
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Ping the cluster
  hosts: "{{ lookup('firstlight.cluster.require_hosts', 'cluster') }}"
  tasks:
    - name: Ping every host
      ansible.builtin.ping:

- name: Tune the hosts that are not as planned
  hosts: "{{ query('firstlight.cluster.require_hosts', 'cluster', phase='host_tuning') }}"
  tasks:
    - name: Tune the host
      ansible.builtin.include_role:
        name: firstlight.cluster.host_tuning
      when: "'host_tuning' in firstlight_steps"
"""

RETURN = r"""
_raw:
  description: The group, as it was given; nothing if no host has anything to do in the phase.
  type: list
  elements: str
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible import constants, context
from ansible.errors import AnsibleError, AnsibleLookupError
from ansible.inventory import manager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.lookup import LookupBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.group_state import Run, is_busy
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.strict_inventory import strict_inventory
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.inventory_names import nearest_group

NOTHING_RUNS = ("syntax", "listtasks", "listtags")


class LookupModule(LookupBase):
    """Returns groups that have hosts."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return the groups as given, or none if no host has work in the phase."""
        self.set_options(var_options=variables, direct=kwargs)
        if any(context.CLIARGS.get(option) for option in NOTHING_RUNS):
            return terms
        known = variables or {}
        phase = self.get_option("phase")
        busy = is_busy(Run.of(known), phase) if phase else None
        if busy is not None:
            return terms if busy else []
        sources = tuple(str(source) for source in known.get("ansible_inventory_sources") or ())
        problem = _unread(sources) or _empty(terms, known, sources)
        if problem:
            raise AnsibleLookupError(problem)
        return terms


@functools.cache
def _unread(sources: Sequence[str]) -> str:
    """Return why hosts may be missing. By default, Ansible only warns about an inventory it cannot read."""
    absent = [source for source in sources if "," not in source and not Path(source).exists()]
    if absent:
        return f"Inventory {', '.join(absent)} does not exist; expected a file or a directory: correct -i."
    if vars(constants)["INVENTORY_ANY_UNPARSED_IS_FAILED"]:
        return ""
    try:
        with strict_inventory():
            manager.InventoryManager(loader=DataLoader(), sources=list(sources))
    except AnsibleError as error:
        return (
            f"A part of the inventory cannot be read, so hosts in it would be left out: {error}; expected files that "
            f"Ansible can read: see what `ansible-inventory -i {' -i '.join(sources)} --list` prints."
        )
    return ""


def _empty(terms: Sequence[str], variables: Mapping[str, Any], sources: Sequence[str]) -> str:
    """Return which group has no hosts, and why."""
    groups: Mapping[str, Sequence[str]] = variables.get("groups") or {}
    limit = str(variables.get("ansible_limit") or "")
    for group in terms:
        members = groups.get(group) or ()
        if not members:
            near = nearest_group(group, groups)
            remedy = f"rename group {near} to {group}" if near else f"list them under {group}, or correct -i"
            return (
                f"Group {group} of inventory {', '.join(sources) or '(none)'} has no hosts; expected the hosts of the "
                f"cluster in it: {remedy}."
            )
        if limit and not _limited(members, groups, limit):
            return (
                f"--limit {limit} leaves none of the {len(members)} hosts of group {group}; expected at "
                f"least one of them: correct --limit."
            )
    return ""


def _limited(members: Sequence[str], groups: Mapping[str, Sequence[str]], limit: str) -> list[str]:
    """Return the hosts of the group that the limit leaves; Ansible itself evaluates the pattern."""
    inventory = manager.InventoryManager(loader=DataLoader(), parse=False)
    for group, hosts in groups.items():
        inventory.add_group(group)
        for host in hosts:
            inventory.add_host(host, group=group)
    inventory.subset(limit)
    left = {host.name for host in inventory.list_hosts()}
    return [host for host in members if host in left]
