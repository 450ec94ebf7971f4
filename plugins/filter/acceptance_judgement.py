# SPDX-License-Identifier: Apache-2.0
"""The filter `acceptance_judgement`: the acceptance runs of all hosts put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core.gpu.acceptance_cluster import judge_cluster

DOCUMENTATION = """
name: acceptance_judgement
short_description: Judge the acceptance runs of all hosts together
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Compares what all hosts may draw with the rack's budget, and the bits that they computed with each other.
positional: power
options:
  _input:
    description:
      - For every host, by name, C(checks) and C(measured) as M(firstlight.cluster.gpu_acceptance) returns them, and
        C(hardware), the hardware profile's entry.
    type: dict
    required: true
  power:
    description: What there is of power in W, C(host_w), C(rack_w), and C(other_w), what a host takes beside its GPUs.
    type: dict
    default: {}
  accept:
    description: Ids of checks that may be as they are.
    type: list
    elements: str
    default: []
"""

EXAMPLES = """
- name: Judge the acceptance of all hosts
  ansible.builtin.set_fact:
    judgement: "{{ parts | firstlight.cluster.acceptance_judgement({'rack_w': 17000}) }}"
"""

RETURN = """
_value:
  description:
    - C(records) by host, as P(firstlight.cluster.records#filter) gives them, and C(wrong), one line for every check of
      all hosts together that is not right.
  type: dict
  sample:
    wrong:
      - "h0: accept.rack_power fails: 2 hosts may take 20400 W, expected at most 17000 W; lower the GPUs' power limit"
"""


def acceptance_judgement(results: object, power: object = None, accept: object = ()) -> dict[str, Any]:
    """The judgement."""
    if not isinstance(results, Mapping) or not all(isinstance(one, Mapping) for one in results.values()):
        raise AnsibleFilterError(
            "acceptance_judgement takes a mapping of hosts to results of gpu_acceptance, found "
            f"{type(results).__name__}: see the example in its documentation"
        )
    accepted = [str(one) for one in accept] if isinstance(accept, (list, tuple)) else []
    try:
        return judge_cluster(results, power if isinstance(power, Mapping) else {}, accepted)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AnsibleFilterError(f"acceptance_judgement cannot judge these results: {error!r}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"acceptance_judgement": acceptance_judgement}
