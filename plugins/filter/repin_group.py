# SPDX-License-Identifier: Apache-2.0
"""The filter `repin_group`: how a re-pin stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils import host_facts
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.group import group_state
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.judge import MOVE

DOCUMENTATION = """
name: repin_group
short_description: Say how the hosts of a group stand in a re-pin
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Puts together what each host's part of a re-pin came to so far, from the facts that C(playbooks/repin.yml) keeps.
positional: hostvars, answering
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
  answering:
    description:
      - The hosts that have not failed to answer, which is C(ansible_play_hosts). One that was to move and is not among
        them is lost, or, where nothing was drained yet, could not be prepared.
    type: list
    elements: str
"""

EXAMPLES = """
- name: Show how the cluster stands
  ansible.builtin.debug:
    msg: "{{ groups['cluster'] | firstlight.cluster.repin_group(hostvars, ansible_play_hosts) }}"
"""

RETURN = """
_value:
  description:
    - C(refused) lists sentences, C(forward) tells whether the group moves, C(failed) has problems by host, C(whole)
      tells whether every host that was to move has moved, C(put_back) lists the hosts that have to be put back, and
      C(waits_for) those without which the group cannot serve.
  type: dict
"""

FACT_NAMES = ("decision", "prepared", "drained", "result", "back", "served", "served_back")
FACTS = {name: f"repin_{name}" for name in FACT_NAMES}
USAGE = "groups['cluster'] | firstlight.cluster.repin_group(hostvars)"
SILENT = "it does not answer SSH any more. Run again once it does"


def facts_of(hosts: object, hostvars: object, answering: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
    """The facts of a re-pin by host, without their prefix."""
    found = host_facts.facts_of(hosts, hostvars, FACTS, USAGE)
    if answering is not None:
        # Ansible goes on without a host that is unreachable; the group cannot.
        outcome = "lost" if any(facts.get("drained") for facts in found.values()) else "unprepared"
        there = set(answering)
        for name, facts in found.items():
            # One that was silent from the start has no decision; where a move is open, it is one of it.
            action = (facts.get("decision") or {"action": MOVE}).get("action")
            if name not in there and action == MOVE and not _ended(facts):
                facts["result"] = {"outcome": outcome if "decision" in facts else "lost", "problem": SILENT}
    return found


def _ended(facts: Mapping[str, Any]) -> bool:
    """Whether the host's part is over, well or badly: what it is now does not change that."""
    outcomes = [(facts.get(name) or {}).get("outcome") for name in ("result", "back")]
    return any(outcome not in (None, "verified") for outcome in outcomes)


def repin_group(hosts: object, hostvars: object, answering: Iterable[str] | None = None) -> dict[str, Any]:
    """How the group stands."""
    return group_state(facts_of(hosts, hostvars, answering))


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"repin_group": repin_group}
