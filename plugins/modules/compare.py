#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action `compare`, which runs on the controller (plugins/action/compare.py)."""

from __future__ import annotations

DOCUMENTATION = r"""
module: compare
short_description: Observe a host and complete its plan with the findings
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Runs M(firstlight.cluster.observe) for what the plan speaks of, then resolves on the controller what only an
    observation knows, as the port of a rail, the RDMA device behind it, NVSwitches and the kernel. Nothing rewrites the
    plan afterwards.
  - Where the host differs from its plan, P(firstlight.cluster.group_state#lookup) tells with V(compared), once every
    host was observed. Secrets must equal the head's.
  - A probe that failed has an entry in C(observation.errors), and what it would have read counts as different.
options:
  plan:
    description: The host's plan, C(firstlight_plan).
    type: dict
    required: true
  roles:
    description: The roles to look at. The default is all of them.
    type: list
    elements: str
    default: []
  strict:
    description: Whether to fail where a rail has no port on the host, and to show the notes of the plan.
    type: bool
    default: true
attributes:
  check_mode:
    description: Reads only, so check mode is no different.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  idempotent:
    description: Changes nothing.
    support: full
"""

EXAMPLES = r"""
- name: Compare the host with its plan
  firstlight.cluster.compare:
    plan: "{{ firstlight_plan }}"
  register: __compared

- name: Set the role variables and the differences
  ansible.builtin.set_fact:
  args: "{{ lookup('firstlight.cluster.group_state', 'compared', register='__compared') }}"
"""

RETURN = r"""
observation:
  description: What M(firstlight.cluster.observe) returned.
  returned: when the host could be observed
  type: dict
plan:
  description:
    - The plan with what was found on the host in the variables and states of its roles. Names of ports in the inventory
      stay.
    - C(errors) has a line for each rail that has no port, C(notes) what else was noticed, and C(leaving) the roles of
      an earlier run that the inventory wants gone.
  returned: when the host could be observed
  type: dict
desired:
  description: The states that are wanted of this host by role, which P(firstlight.cluster.differences#filter) compares.
  returned: when the host could be observed
  type: dict
"""
