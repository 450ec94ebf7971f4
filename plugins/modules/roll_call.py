#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action `roll_call`, which runs on the controller (plugins/action/roll_call.py)."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roll_call
short_description: Fail where hosts of a run are out, and say which of which rack
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Where racks are prepared, a host that fails does not stop the others. What serves needs all hosts, so it must not
    begin while one is out. This is the task between both.
  - Runs on the controller only. No host is contacted. Use it with C(run_once).
  - The callback P(firstlight.cluster.progress#callback) adds why each of them is out, and does not count the host that
    speaks for the others as one that failed.
options:
  expected:
    description: The hosts that should be there, C(ansible_play_hosts_all).
    type: list
    elements: str
    required: true
  present:
    description: The hosts that are there, C(ansible_play_hosts).
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: Changes nothing, so check mode is no different.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  idempotent:
    description: The same hosts give the same answer.
    support: full
"""

EXAMPLES = r"""
- name: Stop where a host is out
  firstlight.cluster.roll_call:
    expected: "{{ ansible_play_hosts_all }}"
    present: "{{ ansible_play_hosts }}"
  run_once: true
"""

RETURN = r"""
missing:
  description: The hosts that are out, by the group of their rack; those of no rack under an empty name.
  returned: always
  type: dict
  sample: {"rack_b": ["spark-b3"]}
"""
