# SPDX-License-Identifier: Apache-2.0
"""The filter `repin_report`: what came of a re-pin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.filter.repin_group import facts_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.report import lines, report

DOCUMENTATION = """
name: repin_report
short_description: Say what came of a re-pin
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - One document out of the facts that C(playbooks/repin.yml) keeps of every host, and the same in a few lines.
positional: hostvars, stack, previous, head, answering
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
  stack:
    description: The stack that was moved to.
    type: str
    required: true
  previous:
    description: The stack that was moved from.
    type: str
    required: true
  head:
    description: The host that serves.
    type: str
    required: true
  answering:
    description: As for P(firstlight.cluster.repin_group#filter).
    type: list
    elements: str
"""

EXAMPLES = """
- name: Show the report
  ansible.builtin.debug:
    msg: "{{ (groups['cluster'] | firstlight.cluster.repin_report(hostvars, 'new', 'old', 'spark0')).lines }}"
"""

RETURN = """
_value:
  description: The C(document), and its C(lines) for a terminal.
  type: dict
"""


def repin_report(
    hosts: object, hostvars: object, stack: str, previous: str, head: str, answering: Iterable[str] | None = None
) -> dict[str, Any]:
    """The document, and its lines."""
    document = report(str(stack), str(previous), facts_of(hosts, hostvars, answering), str(head))
    return {"document": document, "lines": lines(document)}


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"repin_report": repin_report}
