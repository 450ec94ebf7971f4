#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `benchmark`: the parts of `firstlight bench` that happen on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark
short_description: Run the benchmark client of an engine, and read what the servers say
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - With O(action=run) runs the engine's own benchmark client once, in a container of the engine's image or from its
    virtual environment, without a GPU and without any right of root, and gives back its figures. The container, the
    key and every file are removed at the end, whatever happens. Nothing is installed.
  - With O(action=metrics) reads the counters of every server of this host.
  - With O(action=usage) waits until nobody else has used the servers of this host for a few seconds, and says how many
    requests of others there are.
  - With O(action=reach) says whether this host reaches the endpoint.
  - With O(action=clean) removes what a killed run has left on this host, and says which driver is loaded.
options:
  action:
    description: What to do.
    type: str
    choices: [run, metrics, usage, reach, clean]
    required: true
  run:
    description: The name of this run, of letters, digits and dashes. Container and files are called by it.
    type: str
    default: ""
  engine:
    description: Whose client it is.
    type: str
    choices: [vllm, sglang]
    default: vllm
  argv:
    description: The client's command line, with C(/bench) for the directory of the run in a container.
    type: list
    elements: str
    default: []
  runtime:
    description: How the engine is installed.
    type: str
    choices: [docker, venv]
    default: docker
  image:
    description: The image, by the name under which the server runs it.
    type: str
    default: ""
  writable:
    description: Directories of the container that can be written to.
    type: list
    elements: str
    default: []
  model_directory:
    description: The snapshot with the model's tokenizer. The client can only read it.
    type: str
    default: ""
  url:
    description: The server, or for O(action=reach) the endpoint.
    type: str
    default: ""
  key:
    description: The key that the client asks with.
    type: str
    default: ""
  key_path:
    description: A file of this host with C(VLLM_API_KEY=), for a client that asks the server itself.
    type: str
    default: ""
  authority:
    description: The certificate that the endpoint's own is judged by; empty where every machine trusts that.
    type: str
    default: ""
  prompts:
    description: The conversations of this run, as JSON in the format of ShareGPT.
    type: str
    default: ""
  requests:
    description: How many requests the client makes.
    type: int
    default: 0
  targets:
    description: The limits for goodput, as C(ttft_ms), C(tpot_ms) and C(e2e_ms).
    type: dict
    default: {}
  limit:
    description: Seconds after which a run is given up.
    type: int
    default: 3600
  stall:
    description: Seconds without any answer after which a run is given up.
    type: int
    default: 300
  wait:
    description: Seconds to wait for the last request of others, with O(action=usage).
    type: int
    default: 45
  down:
    description: >-
      Whether nobody uses a server that does not say whether it is in use, with O(action=usage), because it is down.
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
- name: Read the counters of every server
  firstlight.cluster.benchmark:
    action: metrics
    url: http://127.0.0.1:290
  register: before
"""

RETURN = r"""
measured:
  description: >-
    The figures of the run, with C(problem) where it does not count, and C(stop) where the next one would not either.
  type: dict
  returned: with O(action=run)
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
  description: Why the endpoint cannot be reached from this host; empty where it can.
  type: str
  returned: with O(action=reach)
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
    keeper_requests,
    read_servers,
    servers,
    used_words,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.completion import api_key
from ansible_collections.firstlight.cluster.plugins.module_utils.core.parsers.nvidia_driver import parse_proc_version
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host

PROC_VERSION = "/proc/driver/nvidia/version"
REACH_SECONDS = 5.0


def job_of(parameters: dict[str, Any], host: Host) -> Job:
    """What is to be run; raises RunnerError where the key is not there."""
    key = parameters["key"]
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
        seen = keeper_requests(host, datetime.datetime.now(datetime.timezone.utc))
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
    raise RunnerError("it was told to end")


def main() -> None:
    """Read the parameters, do the one thing, report."""
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "choices": ["run", "metrics", "usage", "reach", "clean"], "required": True},
            "run": {"type": "str", "default": ""},
            "engine": {"type": "str", "choices": ["vllm", "sglang"], "default": "vllm"},
            "argv": {"type": "list", "elements": "str", "default": []},
            "runtime": {"type": "str", "choices": ["docker", "venv"], "default": "docker"},
            "image": {"type": "str", "default": ""},
            "writable": {"type": "list", "elements": "str", "default": []},
            "model_directory": {"type": "str", "default": ""},
            "url": {"type": "str", "default": ""},
            "key": {"type": "str", "default": "", "no_log": True},
            "key_path": {"type": "str", "default": "", "no_log": False},
            "authority": {"type": "str", "default": ""},
            "prompts": {"type": "str", "default": ""},
            "requests": {"type": "int", "default": 0},
            "targets": {"type": "dict", "default": {}},
            "limit": {"type": "int", "default": 3600},
            "stall": {"type": "int", "default": 300},
            "wait": {"type": "int", "default": 45},
            "down": {"type": "bool", "default": False},
        },
        required_if=[("action", "run", ["run", "argv", "requests"])],
        supports_check_mode=True,
    )
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
