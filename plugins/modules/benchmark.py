#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `benchmark`: what of `firstlight bench` happens on a host. Its other half is the action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark
short_description: Measure a server with the benchmark client of its engine, and store the figures on the controller
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - With O(action=prepare) says where the endpoint is.
  - With O(action=clean) removes what a killed run has left on this host, and says which driver is loaded.
  - With O(action=reach) says whether this host reaches the endpoint.
  - With O(action=begin) chooses client and points, and makes the document of the benchmark, or finds one that was cut
    off. Every host must have its C(firstlight_plan).
  - With O(action=usage) waits until nobody else has used the servers of this host for a few seconds, and says how many
    requests of others there are.
  - With O(action=metrics) reads the counters of every server of this host.
  - With O(action=measure) measures one point - runs the engine's own benchmark client once, in a container of the
    engine's image or from its virtual environment, without a GPU and without any right of root, and gives back its
    figures. The container, the key and every file are removed at the end, whatever happens. Nothing is installed. The
    key goes to the host, and into no variable.
  - With O(action=record) writes the figures of the point into the document.
  - With O(action=finish) ends the benchmark, and shows its figures.
  - The action of the same name does what belongs to the controller. This module is the part of it that a host does.
options:
  action:
    description: What to do.
    type: str
    choices: [prepare, clean, reach, begin, usage, metrics, measure, record, finish]
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
    description: The key of the endpoint to use. Empty for the one with the highest rate.
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
  run:
    description: The name of this run, of letters, digits and dashes, for container and files. Set by the action.
    type: str
    default: ""
  engine:
    description: Whose client it is. Set by the action.
    type: str
    choices: [vllm, sglang]
    default: vllm
  argv:
    description: The client's command line, with C(/bench) for the directory of the run in a container. Set by the
      action.
    type: list
    elements: str
    default: []
  runtime:
    description: How the engine is installed. Set by the action.
    type: str
    choices: [docker, venv]
    default: docker
  image:
    description: The image, by the name under which the server runs it. Set by the action.
    type: str
    default: ""
  writable:
    description: Directories of the container that can be written to. Set by the action.
    type: list
    elements: str
    default: []
  model_directory:
    description: The snapshot with the model's tokenizer. The client can only read it. Set by the action.
    type: str
    default: ""
  url:
    description: The server, or for O(action=reach) the endpoint.
    type: str
    default: ""
  api_key:
    description: The key that the client asks with. Set by the action.
    type: str
    default: ""
  key_path:
    description: A file of this host with C(VLLM_API_KEY=), for a client that asks the server itself. Set by the action.
    type: str
    default: ""
  authority:
    description: The certificate that the endpoint's own is checked by; empty where every machine trusts that.
    type: str
    default: ""
  prompts:
    description: The conversations of this run, as JSON in the format of ShareGPT. Set by the action.
    type: str
    default: ""
  requests:
    description: How many requests the client makes. Set by the action.
    type: int
    default: 0
  targets:
    description: The limits for goodput, as C(ttft_ms), C(tpot_ms) and C(e2e_ms). Set by the action.
    type: dict
    default: {}
  limit:
    description: Seconds after which a run is given up. Set by the action.
    type: int
    default: 3600
  stall:
    description: Seconds without any answer after which a run is given up. Set by the action.
    type: int
    default: 300
  wait:
    description: Seconds to wait for the last request of others, with O(action=usage).
    type: int
    default: 45
  down:
    description: Whether nobody uses a server that takes no connection, with O(action=usage), because it is down.
    type: bool
    default: false
attributes:
  check_mode:
    description: Runs no client and removes nothing.
    support: full
  diff_mode:
    description: Changes no file.
    support: none
"""

EXAMPLES = r"""
- name: Select what to measure
  firstlight.cluster.benchmark:
    action: begin
    workloads: [chat]
    streams: [1, 16]
  register: bench

- name: Read the server counters
  firstlight.cluster.benchmark:
    action: metrics
    url: http://127.0.0.1:290
  register: before
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
  description: The certificate that the endpoint's own is checked by.
  type: str
  returned: with O(action=prepare)
  sample: ""
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
measured:
  description: >-
    The figures of the point, with C(problem) where it does not count, and C(stop) where the next one would not either.
  type: dict
  returned: with O(action=measure)
  sample: {"seconds": 20.1, "requests": 160, "completed": 160, "failed": 0, "failures": {},
           "output_tokens_per_s": 2249.0, "problem": null, "stop": false, "client_load": 0.2}
servers:
  description: The counters of each server; C(problem) says why one does not tell them.
  type: list
  elements: dict
  returned: with O(action=metrics) and O(action=usage)
  sample: [{"url": "http://127.0.0.1:290", "problem": "", "running": 0, "waiting": 0, "finished": 12,
            "cache_queries": 4096.0, "cache_hits": 0.0}]
used:
  description: How many requests others have, in words; empty where nobody uses the servers.
  type: str
  returned: with O(action=usage)
  sample: "http://127.0.0.1:290 has requests of others: 3 running"
problem:
  description: Why this host does not reach the endpoint, or why the run does not count; empty where nothing is wrong.
  type: str
  returned: with O(action=reach) and O(action=record)
  sample: ""
removed:
  description: What a killed run had left.
  type: list
  elements: str
  returned: with O(action=clean)
  sample: [firstlight-bench-20261118T083000Z-1f3a]
driver:
  description: The version of the NVIDIA driver in the kernel; empty where none is loaded.
  type: str
  returned: with O(action=clean)
  sample: 580.173.02
"""

import datetime
import http.client
import os
import signal
import ssl
import time
from typing import Any, NoReturn
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.runner import (
    DIRECTORY,
    MOST_CPUS,
    Job,
    RunnerError,
    remove_leftovers,
    run_client,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.usage import (
    WINDOW,
    read_servers,
    servers,
    supervisor_requests,
    used_words,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.nvidia_driver import parse_proc_version
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.completion import api_key

ARGUMENTS: dict[str, dict[str, Any]] = {
    "action": {
        "type": "str",
        "choices": ["prepare", "clean", "reach", "begin", "usage", "metrics", "measure", "record", "finish"],
        "required": True,
    },
    "workloads": {"type": "list", "elements": "str", "default": []},
    "streams": {"type": "list", "elements": "int", "default": []},
    "rates": {"type": "list", "elements": "float", "default": []},
    "repeats": {"type": "int"},
    "through": {"type": "str", "choices": ["", "endpoint", "server"], "default": ""},
    "key": {"type": "str", "default": "", "no_log": False},
    "in_service": {"type": "str", "default": ""},
    "resume": {"type": "str", "choices": ["auto", "always", "never"], "default": "auto"},
    "conversations": {"type": "str", "default": ""},
    "benchmark": {"type": "dict", "default": {}},
    "index": {"type": "int", "default": 0},
    "measured": {"type": "dict", "default": {}},
    "before": {"type": "list", "elements": "dict", "default": []},
    "after": {"type": "list", "elements": "dict", "default": []},
    "document": {"type": "str", "default": ""},
    "url": {"type": "str", "default": ""},
    "authority": {"type": "str", "default": ""},
    "wait": {"type": "int", "default": 45},
    "down": {"type": "bool", "default": False},
}
SET_BY_THE_ACTION: dict[str, dict[str, Any]] = {
    "run": {"type": "str", "default": ""},
    "engine": {"type": "str", "choices": ["vllm", "sglang"], "default": "vllm"},
    "argv": {"type": "list", "elements": "str", "default": []},
    "runtime": {"type": "str", "choices": ["docker", "venv"], "default": "docker"},
    "image": {"type": "str", "default": ""},
    "writable": {"type": "list", "elements": "str", "default": []},
    "model_directory": {"type": "str", "default": ""},
    "api_key": {"type": "str", "default": "", "no_log": True},
    "key_path": {"type": "str", "default": "", "no_log": False},
    "prompts": {"type": "str", "default": ""},
    "requests": {"type": "int", "default": 0},
    "targets": {"type": "dict", "default": {}},
    "limit": {"type": "int", "default": 3600},
    "stall": {"type": "int", "default": 300},
}
PROC_VERSION = "/proc/driver/nvidia/version"
REACH_SECONDS = 5.0


def job_of(parameters: dict[str, Any], host: Host) -> Job:
    """What is to be run; raises RunnerError where the key is not there."""
    key = parameters["api_key"]
    if not key and parameters["key_path"]:
        key = api_key(host.read_text(parameters["key_path"]) or "")
        if not key:
            raise RunnerError(f"{parameters['key_path']} has no key, expected the one of the server: run site.yml")
    same = ("run", "argv", "engine", "requests", "runtime", "image", "writable", "authority", "prompts", "targets")
    return Job(
        **{name: parameters[name] for name in same},
        model_directory=parameters["model_directory"],
        key=key,
        limit_s=float(parameters["limit"]),
        stall_s=float(parameters["stall"]),
        cpus=min(os.cpu_count() or 1, MOST_CPUS),
    )


def usage(host: Host, url: str, wait: float, *, down: bool) -> dict[str, Any]:
    """Look until nobody else uses the servers, or the time is over."""
    end = time.monotonic() + wait
    urls = servers(host, url)
    second = read_servers(urls)
    while True:
        first = second
        time.sleep(WINDOW)
        second = read_servers(urls)
        seen = supervisor_requests(host, datetime.datetime.now(datetime.timezone.utc))
        used = used_words(first, second, seen, down=down)
        if not used or time.monotonic() >= end:
            return {"servers": second, "used": used}


def reach(url: str, authority: str) -> str:
    """Why no TLS connection to the endpoint comes about; empty where one does."""
    parts = urlsplit(url)
    try:
        trust = ssl.create_default_context(cadata=authority or None)
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port or 443, timeout=REACH_SECONDS, context=trust
        )
        connection.connect()
        connection.close()
    except (OSError, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def _ended(*_: object) -> NoReturn:
    # As an exception it passes through what removes the container and the key.
    raise RunnerError("it was asked to stop")


def main() -> None:
    """Read the parameters, do the one thing, report."""
    module = AnsibleModule(argument_spec={**ARGUMENTS, **SET_BY_THE_ACTION}, supports_check_mode=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ended)
    host, parameters = Host(), module.params
    result: dict[str, Any] = {"changed": False}
    try:
        if parameters["action"] == "metrics":
            result["servers"] = read_servers(servers(host, parameters["url"]))
        elif parameters["action"] == "usage":
            result |= usage(host, parameters["url"], parameters["wait"], down=parameters["down"])
        elif parameters["action"] == "reach":
            result["problem"] = reach(parameters["url"], parameters["authority"])
        elif parameters["action"] == "clean":
            result["removed"] = host.names(DIRECTORY) if module.check_mode else remove_leftovers(host)
            result["changed"] = bool(result["removed"])
            result["driver"] = parse_proc_version(host.read_text(PROC_VERSION)).version or ""
        elif not module.check_mode:
            job = job_of(parameters, host)
            if job.key:
                module.no_log_values.add(job.key)
            result["measured"] = run_client(host, job)
    except RunnerError as error:
        module.fail_json(msg=f"nothing was measured: {error}")
    except OSError as error:
        module.fail_json(msg=f"nothing was measured: {error.filename or DIRECTORY} cannot be used ({error.strerror})")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
