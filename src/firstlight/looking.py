# SPDX-License-Identifier: Apache-2.0
"""What `firstlight verify` and `firstlight up` begin with: the plan and the hosts that may be asked, and what they say.

`firstlight.inventory` is imported before this: it prepares Ansible's own way to import collections.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.firstlight.cluster.plugins.module_utils.core.records import verdict_line, wrong
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.reading import Source
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import explain_refusals
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.display import MOST_HOSTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.fleet import Gathered

from .connection import Connection, is_true, read_become_password
from .console import safe
from .errors import UsageError
from .inventory import InventoryError, read_cluster
from .verifying import Verified


@dataclass(frozen=True)
class Cluster:
    """A plan that is not refused, and the hosts of the limit, in the order of the inventory."""

    plan: ClusterPlan
    hosts: Sequence[Source]
    connections: Sequence[Connection]

    @property
    def head(self) -> str:
        return str(next(iter(self.plan.hosts.values()))["cluster"]["head"])

    def value(self, name: str) -> object:
        """A variable that is the same for all hosts, or none."""
        return next((host.value(name) for host in self.hosts if name in host.names), None)

    def is_true(self, name: str) -> bool:
        return any(is_true(host, name) for host in self.hosts)


def read(arguments: argparse.Namespace) -> Cluster:
    """Plan, and find out how each host is reached; none is contacted. Raises UsageError."""
    try:
        with read_cluster(
            arguments.inventory,
            extra_vars=arguments.extra_vars,
            vault_password_files=arguments.vault_password_file,
            limit=arguments.limit,
        ) as (plan, hosts):
            if plan.refusals or plan.gaps:
                raise UsageError(explain_refusals(plan.refusals, plan.gaps))
            if not hosts:
                raise UsageError(f"--limit {arguments.limit} leaves no host, expected some of {', '.join(plan.hosts)}")
            password = read_become_password(arguments.become_password_file)
            return Cluster(plan, hosts, [Connection(host, password) for host in hosts])
    except InventoryError as error:
        raise UsageError(explain_refusals(error.refusals)) from error


def told(found: Verified) -> Iterable[str]:
    """For people, as the playbook tells it: many hosts that have the same to say are one line."""
    width = min(max(map(len, found.records)), 24)
    if len(found.records) > MOST_HOSTS:
        gathered = Gathered()
        for host, lines in found.lines():
            gathered.hold(host, lines, "plain")
        yield from (line.text for line in gathered.tell(len(found.records)))
    else:
        yield from (f"  {host:<{width}}  {line}".rstrip() for host, lines in found.lines() for line in lines)
    yield from (verdict_line(host, listed) for host, listed in found.records.items() if wrong(listed))


def show(found: Verified) -> None:
    """On standard output; what a host said may hold anything."""
    for line in told(found):
        print(safe(line))
