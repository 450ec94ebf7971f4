#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action `support_bundle`, which runs on the controller (plugins/action/support_bundle.py)."""

from __future__ import annotations

DOCUMENTATION = r"""
module: support_bundle
short_description: Make a directory of what the tools of many hosts print
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - With O(action=begin) says what each host of a group is to be asked for, and under which name it appears.
  - With O(action=write) writes what the hosts handed in into one directory a host, and a manifest beside them that
    C(firstlight diagnose) reads. Directories have the mode 0700 and files 0600.
  - A host that handed in nothing is in the manifest with the reason.
  - Runs on the controller only. No host is contacted. What must not leave a host was replaced on it by
    O(firstlight.cluster.gpu_info#module:redact).
options:
  action:
    description: Which of the two.
    type: str
    choices: [begin, write]
    required: true
  directory:
    description: Where the support bundle is to be; empty or not there.
    type: path
    required: true
  group:
    description: The group whose hosts are asked.
    type: str
    default: cluster
  hosts:
    description: For O(action=write), the hosts that were asked.
    type: list
    elements: str
  plans:
    description: For O(action=begin), the hosts' plans as far as there are any. Without one a host is asked for less.
    type: dict
    default: {}
  asked:
    description: For O(action=write), RV(asked) of O(action=begin).
    type: dict
    default: {}
  register:
    description: For O(action=write), the variable in which the answer of M(firstlight.cluster.gpu_info) is registered.
    type: str
    default: collect_answer
  anonymous:
    description:
      - With O(action=begin), whether hosts are named host1, host2 and so on.
      - With O(action=write), whether they are also taken out of what is said of hosts that do not answer.
    type: bool
    default: false
attributes:
  check_mode:
    description: Asks, and writes nothing.
    support: full
  diff_mode:
    description: What is written is new.
    support: none
"""

EXAMPLES = r"""
- name: Start the support bundle
  firstlight.cluster.support_bundle:
    action: begin
    directory: /tmp/bundle
  register: collect
  run_once: true

- name: Write the support bundle
  firstlight.cluster.support_bundle:
    action: write
    directory: /tmp/bundle
    hosts: "{{ ansible_play_hosts_all }}"
    asked: "{{ collect.asked }}"
  run_once: true
"""

RETURN = r"""
asked:
  description: What to ask each host for.
  returned: with O(action=begin)
  type: dict
  sample: {"spark0": {"name": "spark0", "hardware": "gb10", "driver": null, "kinds": ["topo"], "ports": [],
                      "metrics_port": null}}
names:
  description: The name of each host in the support bundle, by its name and its address in the inventory.
  returned: with O(action=begin)
  type: dict
  sample: {"spark0": "host1"}
lines:
  description: What was collected, in words.
  returned: with O(action=write)
  type: list
  elements: str
  sample: [17 outputs of 1 of 1 hosts are in /tmp/bundle]
"""
