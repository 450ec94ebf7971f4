# SPDX-License-Identifier: Apache-2.0
"""The common start of `firstlight verify` and `firstlight up`: plan, connections, and the state of the hosts.

Import `firstlight.inventory` before this module: it sets up Ansible's collection import hook.
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
    """An accepted plan, and the hosts within the limit, in inventory order."""

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
        """Return a variable that is the same for all hosts, or None."""
        return next((host.value(name) for host in self.hosts if name in host.names), None)

    def is_set(self, name: str) -> bool:
        """Return whether a variable is set and not empty on any host, even if it is a secret."""
        return any(name in host.names and host.value(name) not in (None, "", False) for host in self.hosts)

    def is_true(self, name: str) -> bool:
        return any(is_true(host, name) for host in self.hosts)


def read(arguments: argparse.Namespace) -> Cluster:
    """Make the plan and configure a connection per host, without contacting any. Raises UsageError."""
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
                raise UsageError(f"--limit {arguments.limit} matches no host, expected some of {', '.join(plan.hosts)}")
            password = read_become_password(arguments.become_password_file)
            return Cluster(plan, hosts, [Connection(host, password) for host in hosts])
    except InventoryError as error:
        raise UsageError(explain_errors(error.errors)) from error


def reasons_to_run(cluster: Cluster) -> list[str]:
    """Return why site.yml has to run, one line per reason; if there is none, print what was checked."""
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
    print(f"every host matches its plan: {len(found.records)} of {len(found.records)}, {checks} checks passed")
    print(safe(f"{questions[-1]['model']} answered {json.dumps(answer['answer']['reply'])}"))
    print("nothing to do: site.yml was not run")
    return []


def told(found: Verified) -> Iterable[str]:
    """Yield lines for the terminal as the playbook prints them: with many hosts, identical lines are grouped."""
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
    """Print the findings, with control characters escaped, as they contain text from the hosts."""
    for line in told(found):
        print(safe(line))
