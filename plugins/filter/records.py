# SPDX-License-Identifier: Apache-2.0
"""The filter `records`: verify a host, with one record per check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison import records as core

DOCUMENTATION = """
name: records
short_description: Verify a host against desired states, one record per check
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Compares desired states with what M(firstlight.cluster.observe) read, as P(firstlight.cluster.differences#filter)
    does, and gives a record for every check, also for those that pass.
  - A check that could not be made has the verdict V(could_not_check), and so has a host without an observation.
positional: host, result
options:
  _input:
    description: Desired states by role name, as C(firstlight_plan.desired).
    type: dict
    required: true
  host:
    description: The host's name in the inventory.
    type: str
    required: true
  result:
    description: What M(firstlight.cluster.observe) returned, registered; also of a host that did not answer.
    type: dict
    required: true
  peers:
    description: Observations of other hosts by host name, for files that must equal another host's.
    type: dict
    default: {}
  history:
    description: What M(firstlight.cluster.observe) returned as C(history). Without it no record says by what.
    type: dict
  stack:
    description: The name of the pinned stack, for the remedies.
    type: str
"""

EXAMPLES = """
- name: Verify the host
  ansible.builtin.set_fact:
    firstlight_records: "{{ firstlight_plan.desired | firstlight.cluster.records(inventory_hostname, __observe) }}"
"""

RETURN = """
_value:
  description: The records. C(verdict) is V(pass), V(fail), V(not_applicable) or V(could_not_check); C(command)
    does what C(remedy) says where that is safe to run, else it is null; C(by) is null where nothing tells.
  type: list
  elements: dict
  sample:
    - id: hold.nvidia-utils-580
      host: spark0
      expected: true
      observed: false
      verdict: fail
      remedy: run site.yml
      command: null
      by: no log records who removes a hold (`apt-mark unhold`)
"""


def records(
    desired_by_role: object,
    host: str,
    result: object,
    peers: Mapping[str, Any] | None = None,
    history: Mapping[str, Any] | None = None,
    stack: str | None = None,
) -> list[core.Record]:
    """Return the records of one host, whether or not it could be observed."""
    if not isinstance(desired_by_role, Mapping) or not isinstance(result, Mapping):
        raise AnsibleFilterError(
            "records compares a mapping of desired states by role with the result of observe, found "
            f"{type(desired_by_role).__name__} and {type(result).__name__}: write "
            "`firstlight_plan.desired | firstlight.cluster.records(inventory_hostname, __observe)`"
        )
    observation = result.get("observation")
    if not isinstance(observation, Mapping):
        return core.silent(str(host), str(result.get("msg") or "observe returned nothing"))
    try:
        return core.records(str(host), desired_by_role, observation, peers, history, stack)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AnsibleFilterError(f"records cannot compare these states: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"records": records}
