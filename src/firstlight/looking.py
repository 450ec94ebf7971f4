# SPDX-License-Identifier: Apache-2.0
"""What `firstlight verify` and `firstlight up` begin with: the plan and the hosts that may be asked, and what they say.

`firstlight.inventory` is imported before this: it prepares Ansible's own way to import collections.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import verdict_line, wrong
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import explain_errors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.reading import Source
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.blocks import MOST_HOSTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.fleet import Gathered
from ansible_collections.firstlight.cluster.plugins.plugin_utils.verification import (
    beyond_a_look,
    completion_questions,
    roles_to_do,
)

from .connection import Connection, is_true, read_become_password
from .console import safe
from .errors import UsageError
from .inventory import InventoryError, read_cluster
from .verifying import Verified, complete, verify


@dataclass(frozen=True)
class Cluster:
    """A plan that is not refused, and the hosts of the limit, in the order of the inventory."""

    plan: ClusterPlan
    hosts: Sequence[Source]
    connections: Sequence[Connection]

    @property
    def head(self) -> str:
        return str(next(iter(self.plan.hosts.values()))["cluster"]["head"])

    @property
    def roles(self) -> list[str]:
        """The roles of the plan."""
        return list(next(iter(self.plan.hosts.values()))["desired"])

    def value(self, name: str) -> object:
        """A variable that is the same for all hosts, or none."""
        return next((host.value(name) for host in self.hosts if name in host.names), None)

    def is_set(self, name: str) -> bool:
        """Whether a variable of any host holds something, be it a secret."""
        return any(name in host.names and host.value(name) not in (None, "", False) for host in self.hosts)

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
            if plan.errors or plan.missing_inputs:
                raise UsageError(explain_errors(plan.errors, plan.missing_inputs))
            if not hosts:
                raise UsageError(f"--limit {arguments.limit} leaves no host, expected some of {', '.join(plan.hosts)}")
            password = read_become_password(arguments.become_password_file)
            return Cluster(plan, hosts, [Connection(host, password) for host in hosts])
    except InventoryError as error:
        raise UsageError(explain_errors(error.errors)) from error


def reasons_to_run(cluster: Cluster) -> list[str]:
    """Why site.yml has to run, in a line each; where it need not, what was seen has been said."""
    plans = cluster.plan.hosts
    unseen = [reason for host in cluster.hosts for reason in beyond_a_look(plans[host.name], cluster.is_set)]
    if unseen:
        return list(dict.fromkeys(unseen))
    head = next((one for one in cluster.connections if one.host == cluster.head), None)
    if head is None:
        return [f"{cluster.head}, the head, is not in the limit"]
    found = verify(plans, head.host, cluster.connections, paths=False)
    seen = {host: result["observation"] for host, result in found.results.items() if "observation" in result}
    reasons = [verdict_line(host, listed) for host, listed in found.records.items() if wrong(listed)]
    reasons += [reason for host, one in seen.items() for reason in roles_to_do(plans[host], one)]
    questions = completion_questions(plans[head.host])
    if reasons or not questions:
        return [safe(reason) for reason in reasons] or ["nothing is served"]
    answer = complete(head, questions)
    if "answer" not in answer:
        return [safe(str(answer["problem"]))]
    checks = len(found.all_records)
    print(f"{len(found.records)} hosts are as their plan has them: all {checks} checks are right")
    print(safe(f"{questions[-1]['model']} answered {json.dumps(answer['answer']['reply'])}"))
    print("nothing is to be done: site.yml was not run")
    return []


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
