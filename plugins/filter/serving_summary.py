# SPDX-License-Identifier: Apache-2.0
"""The filter `serving_summary`: how a cluster serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.host_facts import names_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.status import (
    hosts_in_order,
    lines,
    status_document,
)

DOCUMENTATION = """
name: serving_summary
short_description: Say how a cluster serves
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Puts together what M(firstlight.cluster.serving_status) answered for each host. A host that did not answer is in it
    with the reason.
positional: hostvars, register
options:
  _input:
    description: Names of the hosts, in the order in which they are shown.
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
    default: status_answer
  head:
    description: The head of the inventory. Without it, the host that the keepers take for theirs.
    type: str
  at:
    description: The time, for who reads it.
    type: str
    default: ""
  targets:
    description: The variable C(firstlight_targets), which C(service) is held against. None are set by default.
    type: dict
"""

EXAMPLES = """
- name: Show how it serves
  ansible.builtin.debug:
    msg: "{{ (ansible_play_hosts_all | firstlight.cluster.serving_summary(hostvars)).lines }}"
"""

RETURN = """
_value:
  description:
    - C(verdict) is V(serving), V(partly serving), V(not serving) or V(unknown), C(why) says why not, C(groups) and
      C(nodes) have the details, C(service) the last minutes beside their targets, and C(lines) says it all in a few
      lines.
  type: dict
"""

USAGE = "ansible_play_hosts_all | firstlight.cluster.serving_summary(hostvars)"


def serving_summary(
    hosts: object,
    hostvars: Any,
    register: str = "status_answer",
    head: str | None = None,
    at: str = "",
    targets: Any = None,
) -> dict[str, Any]:
    """The document, with its lines."""
    answers = hosts_in_order(names_of(hosts, hostvars, USAGE), hostvars, register)
    document = status_document(answers, head, at, targets)
    return {**document, "lines": lines(document)}


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"serving_summary": serving_summary}
