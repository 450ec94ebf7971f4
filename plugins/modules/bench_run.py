#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: bench_run
short_description: Say what a benchmark measures, and keep its figures on the controller
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - The part of C(playbooks/bench.yml) that happens on the controller; M(firstlight.cluster.benchmark) is the other one.
    Every host must have its C(firstlight_plan).
  - With O(action=prepare) says where the endpoint is.
  - With O(action=begin) chooses client and points, and makes the document of the benchmark, or finds one that was cut
    off.
  - With O(action=measure) has one point measured on the host of the task. The key goes to the host, and into no
    variable.
  - With O(action=record) writes the figures of the point into the document.
  - With O(action=finish) ends the benchmark, and shows its figures.
  - An action of the same name does all of it; nothing of this module runs on a host.
options:
  action:
    description: What to do.
    type: str
    choices: [prepare, begin, measure, record, finish]
    required: true
  workloads:
    description: Workloads of the catalog by name. The usual ones where it is empty.
    type: list
    elements: str
    default: []
  streams:
    description: Numbers of streams to measure at, in place of those of the workloads.
    type: list
    elements: int
    default: []
  rates:
    description: Requests per second to measure at, in place of those of the workloads.
    type: list
    elements: float
    default: []
  repeats:
    description: How often each point is measured, in place of what the workloads say.
    type: int
  through:
    description: What the client asks. Empty for the endpoint where another host than the head reaches it.
    type: str
    choices: ["", endpoint, server]
    default: ""
  key:
    description: The key of the endpoint to ask with. Empty for the one that may ask most often.
    type: str
    default: ""
  in_service:
    description: The name of the cluster or of its model, to measure it while people use it.
    type: str
    default: ""
  resume:
    description: Whether to go on with a benchmark of the same that was cut off. V(always) fails where there is none.
    type: str
    choices: [auto, always, never]
    default: auto
  conversations:
    description: A file of the controller with conversations, for workloads that need one.
    type: str
    default: ""
  benchmark:
    description: What O(action=prepare), or for all later actions O(action=begin), has returned.
    type: dict
    default: {}
  index:
    description: The number of the point, from 0.
    type: int
    default: 0
  measured:
    description: The figures of the point.
    type: dict
    default: {}
  before:
    description: The counters of the servers before the point was measured.
    type: list
    elements: dict
    default: []
  after:
    description: The same afterwards.
    type: list
    elements: dict
    default: []
  document:
    description: A file of the controller into which O(action=finish) writes the document, too.
    type: str
    default: ""
attributes:
  check_mode:
    description: Says what would be measured, and writes nothing.
    support: full
  diff_mode:
    description: There is nothing to compare with.
    support: none
"""

EXAMPLES = r"""
- name: Choose what is measured
  firstlight.cluster.bench_run:
    action: begin
    workloads: [chat]
    streams: [1, 16]
  register: bench
"""

RETURN = r"""
benchmark:
  description: What is measured, and where its document is.
  type: dict
  returned: with O(action=begin)
  sample: {"run": "20261118T083000Z-1f3a", "resumed": false}
url:
  description: The endpoint, empty where there is none.
  type: str
  returned: with O(action=prepare)
  sample: https://10.0.0.10
authority:
  description: The certificate that the endpoint's own is judged by.
  type: str
  returned: with O(action=prepare)
  sample: ""
measured:
  description: The figures of the point.
  type: dict
  returned: with O(action=measure)
  sample: {"seed": 1234, "problem": null}
line:
  description: The figures of the point in a line.
  type: str
  returned: with O(action=record)
  sample: "chat at 16 streams, run 1 of 3: 2249.0 tok/s, TTFT p50 295 ms, 18 s"
stop:
  description: Whether the server cannot be measured any further.
  type: bool
  returned: with O(action=record)
  sample: false
problem:
  description: Why the run does not count; empty where it does.
  type: str
  returned: with O(action=record)
  sample: ""
lines:
  description: What will be measured, or was, for people.
  type: list
  elements: str
  returned: with O(action=begin) and O(action=finish)
  sample: ["9 runs from spark3, through the endpoint at https://10.0.0.10"]
complete:
  description: Whether every point has figures.
  type: bool
  returned: with O(action=finish)
  sample: true
problems:
  description: The runs that do not count, and why.
  type: list
  elements: str
  returned: with O(action=finish)
  sample: []
"""
