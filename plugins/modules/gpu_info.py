#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `gpu_info`: everything that a host's tools tell of its GPUs, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Read everything that a host's tools report about its GPUs, in one call
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Asks nvidia-smi (list, query, log, versions, topology, NVLink), the kernel's modules, the PCI bus, the fabric
    manager and the kernel's log, all at once. Each command has its own time limit, so that a GPU
    that hangs cannot hang the run.
  - What the tools say becomes plain values. What cannot be understood is quoted in RV(problems), and is never taken for
    right.
  - With a hardware profile in O(expected) it is evaluated, check by check, as P(firstlight.cluster.records#filter) and
    C(firstlight diagnose) do it.
  - With O(container) it only counts the GPUs that a container sees, and fails where they are not as many as expected.
  - Changes nothing. Kernel log and container need privileges (C(become)); without them these are problems.
options:
  kinds:
    description:
      - Which kinds of output to read. Without it those that GPUs are evaluated by.
      - V(vllm-metrics) needs O(metrics_port). V(ray-status) asks Ray in its container.
    type: list
    elements: str
    choices: [smi-list, query-gpu, smi-xml, smi-version, topo, nvlink, proc-version, fabricmanager, kernel-log,
              lspci, modules, smi-table, smi-q, ibstat, ibdev2netdev, rdma-link, ray-status, ethtool, vllm-metrics]
  ports:
    description: Network ports to ask ethtool about. Without any, those of the RDMA devices that the host has.
    type: list
    elements: str
    default: []
  metrics_port:
    description: Port on which an inference server of this host gives its metrics without a key.
    type: int
  expected:
    description: The hardware to evaluate by. Without it nothing is evaluated.
    type: dict
    suboptions:
      profile:
        description: The profile's name, for messages.
        type: str
        default: unnamed
      hardware:
        description: The profile's entry of C(catalog/hardware). It needs C(gpus) and C(gpu_name); what else it lacks is
          not evaluated.
        type: dict
        required: true
      driver:
        description: The driver's version, where one is pinned.
        type: str
  container:
    description:
      - In place of the host's tools, runs C(nvidia-smi -L) in a container with all GPUs and without a network. The
        container is removed, also in check mode. Nothing is pulled.
    type: dict
    suboptions:
      image:
        description: An image that is on the host already. Any will do that can run C(nvidia-smi), which the container
          toolkit puts into the container.
        type: str
        required: true
      count:
        description: How many GPUs the container must see.
        type: int
        required: true
  timeout:
    description: Seconds each command may take.
    type: int
    default: 30
  raw:
    description: Whether to return what the commands printed.
    type: bool
    default: false
  redact:
    description:
      - Replaces serial numbers, UUIDs, MAC addresses, public addresses, tokens and passwords, on the host, before
        anything is understood or returned. Without it nothing is replaced.
    type: dict
    suboptions:
      key:
        description: What the replacements are made with. The same key gives the same replacements on every host.
        type: str
        required: true
      anonymous:
        description: Whether names of hosts and users and private addresses are replaced, too.
        type: bool
        default: false
      names:
        description: Names of hosts, and what stands in their place with O(redact.anonymous).
        type: dict
        default: {}
      label:
        description: What stands in the place of the host's own name with O(redact.anonymous).
        type: str
        default: ""
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
requirements:
  - python >= 3.10
"""

EXAMPLES = r"""
- name: Read the GPU facts
  firstlight.cluster.gpu_info:
  register: gpus

- name: Evaluate the GPUs of a host with four of them
  firstlight.cluster.gpu_info:
    expected:
      profile: h100-sxm-4
      hardware: {gpus: 4, gpu_name: NVIDIA H100 80GB HBM3, pair: NV6, links_per_gpu: 18, link_gb_s: 26.562}
      driver: 590.48.01
  register: gpus

- name: Check that a container sees eight GPUs
  firstlight.cluster.gpu_info:
    container:
      image: vllm/vllm-openai@sha256:0123
      count: 8
    timeout: 120

- name: Read the output of the tools
  firstlight.cluster.gpu_info:
    kinds: [topo, nvlink, smi-q, kernel-log]
    raw: true
    redact:
      key: "{{ lookup('ansible.builtin.password', '/dev/null', length=48) }}"
  no_log: true
"""

RETURN = r"""
container_gpus:
  description: The GPUs that the container sees, by UUID. Nothing else is returned then.
  returned: with O(container)
  type: list
  elements: str
  sample: ["GPU-11111111-2222-3333-4444-555555555555"]
facts:
  description: What was understood, by question. GPUs are under C(query-gpu), C(smi-xml) and C(smi-list).
  returned: always
  type: dict
  sample: {"topo": {"gpus": ["GPU0"], "nics": [], "cells": {"GPU0": {}}, "complete": true}}
problems:
  description: What was not understood, or why there is no answer, by question.
  returned: always
  type: dict
  sample: {"nvlink": ["nvidia-smi gave no answer within 30 s"]}
checks:
  description: One check an id, with verdict (V(pass), V(fail), V(not_applicable), V(could_not_check)), what was
    expected and observed, what to do, and a command that does it where that is safe.
  returned: when O(expected) was given
  type: list
  elements: dict
  sample: [{"id": "nvlink.links", "host": "", "verdict": "pass", "expected": "18 links",
            "observed": "18 links on each of 8 GPUs", "remedy": "", "command": null,
            "source": "nvidia-smi nvlink -s"}]
verdicts:
  description: How many checks have each verdict.
  returned: when O(expected) was given
  type: dict
  sample: {"pass": 14, "not_applicable": 3}
raw:
  description: What the commands printed, by question.
  returned: when O(raw)
  type: dict
  sample: {"topo": {"kind": "topo", "command": "nvidia-smi topo -m", "rc": 0, "seconds": 0.1, "text": "...",
                    "problem": ""}}
seconds:
  description: How long all of it took.
  returned: always
  type: float
  sample: 1.3
"""

import platform
import time
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.fabric_ports import rdma_ports
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu import container_gpus as in_container
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.gpu_health import (
    ask,
    checks_of,
    readings_of,
    tally,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.gpu_probe import KINDS, Answer, questions, raw
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import expected_by
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.redact import REDACT_OPTION, redact_raw


def information(parameters: Mapping[str, Any], host: Host) -> dict[str, Any]:
    """Everything that was asked for; raises ValueError for what cannot be."""
    began = time.monotonic()
    want = parameters["expected"]
    expected = expected_by(want) if want else None
    ports = parameters["ports"] or (rdma_ports() if "ethtool" in (parameters["kinds"] or ()) else [])
    asked = questions(parameters["kinds"], ports, parameters["metrics_port"])
    answers, busy = ask(host, asked, float(parameters["timeout"]))
    if parameters["redact"]:
        told = redact_raw(raw(answers), parameters["redact"], platform.node())
        answers = [Answer(name, **one) for name, one in told.items()]
    readings = readings_of(answers)
    found: dict[str, Any] = {
        "facts": {name: dict(one.data) for name, one in readings.items()},
        "problems": {name: list(one.problems) for name, one in readings.items() if one.problems},
    }
    if expected is not None:
        found["checks"] = checks_of(answers, readings, expected, serving=busy)
        found["verdicts"] = tally(found["checks"])
    if parameters["raw"]:
        found["raw"] = raw(answers)
    return {**found, "seconds": round(time.monotonic() - began, 3)}


def container_gpus(image: str, count: int, timeout: float, host: Host) -> list[str]:
    """The UUIDs of the GPUs in a container; raises ValueError when they are not as many as expected."""
    result = host.run(in_container.arguments(image), timeout)
    return in_container.evaluate(result.rc, result.stdout, result.stderr, result.problem, image, count)


def main() -> None:
    """Read the parameters, ask, report."""
    module = AnsibleModule(
        argument_spec={
            "kinds": {"type": "list", "elements": "str", "choices": list(KINDS)},
            "ports": {"type": "list", "elements": "str", "default": []},
            "metrics_port": {"type": "int"},
            "expected": {
                "type": "dict",
                "options": {
                    "profile": {"type": "str", "default": "unnamed"},
                    "hardware": {"type": "dict", "required": True},
                    "driver": {"type": "str"},
                },
            },
            "container": {
                "type": "dict",
                "options": {"image": {"type": "str", "required": True}, "count": {"type": "int", "required": True}},
            },
            "timeout": {"type": "int", "default": 30},
            "raw": {"type": "bool", "default": False},
            "redact": REDACT_OPTION,
        },
        mutually_exclusive=[("container", "kinds"), ("container", "expected")],
        supports_check_mode=True,
    )
    container, timeout = module.params["container"], float(module.params["timeout"])
    if container:
        try:
            seen = container_gpus(container["image"], container["count"], timeout, Host())
        except ValueError as error:
            module.fail_json(msg=str(error))
        else:
            module.exit_json(changed=False, container_gpus=seen)
    try:
        found = information(module.params, Host())
    except ValueError as error:
        module.fail_json(msg=f"expected or kinds cannot be used: {error}")
    else:
        module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
