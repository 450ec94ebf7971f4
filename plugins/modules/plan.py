#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action `plan`, which runs on the controller (plugins/action/plan.py)."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Plan a cluster from its inventory and the catalog
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Turns the intent in the inventory (the C(firstlight_*) variables) and the catalog into one document, with each
    host's addresses, launch commands, role variables and the state every role wants, and whether the model fits.
  - Runs on the controller only. No host is contacted.
  - Fails with every error at once, each with what was found, the rule, and what to change.
  - A role variable that is set in the inventory wins over what the plan would choose.
options:
  group:
    description: The group of hosts that make up the cluster. One of them must be in the group C(head).
    type: str
    default: cluster
  complete:
    description:
      - Also fail when something is missing that only the operator knows, such as the digest of the image. Without it
        nothing can be run; a plan on paper does without.
    type: bool
    default: true
  stack:
    description: The stack release to plan instead of the inventory's C(firstlight_stack). A re-pin plans the next one.
    type: str
  model:
    description:
      - The model to plan instead of the inventory's C(firstlight_model). What the inventory says of that one alone, its
        revision, its C(config.json) and the name it is served under, does not count for another.
    type: str
  model_revision:
    description: With O(model), the commit of its weights, where the catalog does not have it.
    type: str
  serving:
    description: Settings that replace single ones of the inventory's C(firstlight_serving).
    type: dict
  without:
    description: Hosts of the group to leave out, as if the inventory did not have them. A removal plans the rest.
    type: list
    elements: str
    default: []
  bench:
    description: The file on the controller with the result of a benchmark of this cluster, to be held against the plan.
    type: path
  observed:
    description:
      - With O(bench), the variable in which the result of M(firstlight.cluster.observe) is registered on each host.
        Where the cluster is slow, it tells what to look at first.
    type: str
attributes:
  check_mode:
    description: Changes nothing, so check mode is no different.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  idempotent:
    description: The same inventory and catalog give the same plan.
    support: full
"""

EXAMPLES = r"""
- name: Plan the cluster
  firstlight.cluster.plan:
  register: __plan
  run_once: true

- name: Store each host's plan
  ansible.builtin.set_fact:
    firstlight_plan: "{{ __plan.plans[inventory_hostname] }}"
"""

RETURN = r"""
plans:
  description: The plans of all hosts by host name.
  returned: when the plan was not refused
  type: dict
  contains:
    cluster:
      description: Head, hosts in inventory order and their number, and the names of what was chosen.
      type: dict
      returned: always
      sample: {"head": "spark0", "hosts": ["spark0", "spark1"], "size": 2, "hardware": "gb10"}
    host:
      description: Name, rank, whether it is the head, its fabric ports, its launch commands and its expected readings.
      type: dict
      returned: always
      sample: {"name": "spark0", "rank": 0, "is_head": true, "launch": [],
               "fabric": [{"port": "enp1s0f1np1", "address": "192.168.100.10/24", "mtu": 9000}]}
    startup:
      description: How long a start may take, with what that follows from.
      type: dict
      returned: always
      sample: {"limit_s": 3420, "read_s": 999, "compile_s": 2400, "progress_timeout_s": 1200}
    roles:
      description: Every role's variables, complete; null for a role this cluster does not use.
      type: dict
      returned: always
      sample: {"host_tuning": {"host_tuning_swappiness": 1}}
    desired:
      description: The state every role wants, empty for a role that has nothing to do on the host.
      type: dict
      returned: always
      sample: {"host_tuning": {"sysctl": {"vm.swappiness": "1"}}}
    resources:
      description:
        - What is free once nothing serves, and what goes with a teardown, C(ports) of clients, replicas and Ray,
          C(directories) of weights, and C(references) of pinned images.
      type: dict
      returned: always
      sample: {"ports": [290, 6379], "directories": [], "references": []}
    client_help:
      description: How the endpoint of the host is asked, without a secret in it; empty where it has none.
      type: list
      elements: str
      returned: always
      sample: ["address    https://192.0.2.10/v1"]
document:
  description: The whole plan, as C(firstlight plan --json) prints it.
  returned: when the plan was not refused
  type: dict
  sample: {"errors": [], "missing_inputs": [], "hosts": {}, "fit": {}, "advice": []}
bench:
  description: The verdict of the benchmark, its comparisons, and what to look at first.
  returned: with O(bench)
  type: dict
  sample: {"verdict": "pass", "lines": [], "look_at": []}
bench_lines:
  description: The same for people.
  returned: with O(bench)
  type: list
  elements: str
  sample: ["PASS"]
bench_gate:
  description: Why workloads of C(firstlight_bench.gate) do not pass; empty where they all do.
  returned: with O(bench)
  type: list
  elements: str
  sample: []
errors:
  description: Everything for which the plan was refused.
  returned: always
  type: list
  elements: dict
  sample: [{"id": "fabric.mtu", "found": "firstlight_fabric.mtu is 90000",
            "rule": "the MTU is a whole number from 1280 to 9216", "remedy": "write 9000"}]
missing_inputs:
  description: What only the operator can supply before a host is touched, in the same form.
  returned: always
  type: list
  elements: dict
  sample: []
notes:
  description: What the operator should know about the choices.
  returned: always
  type: list
  elements: str
  sample: ["qwen-3.5-235b-a17b is qwen3-235b-a22b-fp8 in the catalog."]
"""
