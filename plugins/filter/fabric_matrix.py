# SPDX-License-Identifier: Apache-2.0
"""The filter `fabric_matrix`: the proof of a fabric judged, by what all its hosts saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core.proof.matrix import judge

DOCUMENTATION = """
name: fabric_matrix
short_description: Judge the proof of a fabric by what all hosts saw
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Puts the results of M(firstlight.cluster.fabric_proof) of all hosts together. Only then can a bad switch port be
    told from a bad host, and an address that two hosts have be given both names.
positional: members
options:
  _input:
    description:
      - For every host that was asked, by name, its planned C(ports), its C(peers), and the registered C(result) of
        M(firstlight.cluster.fabric_proof), also where it failed or the host did not answer.
    type: dict
    required: true
  members:
    description: All hosts of the fabric in the order in which the matrix shows them.
    type: list
    elements: str
    default: []
  floors:
    description: Least throughput of a path in Gb/s, C(tcp_gbit) and C(rdma_gbit). What is not given is not judged.
    type: dict
    default: {}
"""

EXAMPLES = """
- name: Judge the fabric
  ansible.builtin.set_fact:
    matrix: "{{ parts | firstlight.cluster.fabric_matrix(['spark0', 'spark1'], floors={'tcp_gbit': 20}) }}"
"""

RETURN = """
_value:
  description:
    - C(passed), C(records) by host as P(firstlight.cluster.records#filter) gives them, C(diagnoses) with one line for
      each fault, and C(lines), the matrix for people.
  type: dict
  sample:
    passed: false
    diagnoses:
      - "enp1s0f1np1 of spark2 has MTU 1500, 9000 is planned: run site.yml, which sets it"
    lines:
      - "from \\\\ to  spark0  spark2"
      - "spark0     -       1500"
      - "spark2     1500    -"
"""


def fabric_matrix(parts: object, members: object = (), floors: object = None) -> dict[str, Any]:
    """The judgement."""
    if not isinstance(parts, Mapping) or not isinstance(members, (list, tuple)):
        raise AnsibleFilterError(
            "fabric_matrix takes a mapping of hosts to what they handed in and a list of hosts, found "
            f"{type(parts).__name__} and {type(members).__name__}: see the example in its documentation"
        )
    try:
        return judge([str(name) for name in members], parts, floors if isinstance(floors, Mapping) else {})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AnsibleFilterError(f"fabric_matrix cannot judge these results: {error!r}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"fabric_matrix": fabric_matrix}
