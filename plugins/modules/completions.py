#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: completions
short_description: Ask a server fixed prompts, one after the other, and bring its answers back
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Asks an OpenAI-compatible server for a chat completion of each prompt, with temperature 0 and a seed, one at a time,
    so that nothing but the server decides the answer.
  - A prompt that the engine refuses, as it does not fit into the context, is left out. Any other failure is tried once
    more and then ends the asking; it is a result, and no failure of the task.
  - Only reads. The key is read from a file on this host and appears nowhere.
options:
  url:
    description: The server as C(http://address:port). A wildcard address is asked through loopback.
    type: str
    required: true
  model:
    description: The name the model is served under.
    type: str
    required: true
  engine:
    description: The engine that answers.
    type: str
    choices: [vllm, sglang, tensorrt-llm]
    default: vllm
  key_path:
    description: The environment file with C(VLLM_API_KEY=).
    type: path
    default: /etc/firstlight/server.env
  prompts:
    description: What is asked, each with C(id), C(prompt) and C(max_tokens).
    type: list
    elements: dict
    required: true
  times:
    description: How often all of it is asked.
    type: int
    default: 1
  timeout:
    description: Seconds for one answer.
    type: int
    default: 120
  limit:
    description: Seconds for all answers.
    type: int
    default: 3600
attributes:
  check_mode:
    description: Asks nothing.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
"""

EXAMPLES = r"""
- name: Ask two prompts
  firstlight.cluster.completions:
    url: http://127.0.0.1:290
    model: tiny
    prompts:
      - {id: add, prompt: "What is 457 + 675?", max_tokens: 16}
      - {id: capital, prompt: "What is the capital of Australia?", max_tokens: 8}
"""

RETURN = r"""
answers:
  description: A list for each time, of the answers with C(id), C(text), C(token_ids) and C(finish_reason).
  type: list
  elements: list
  returned: success
left_out:
  description: The prompts that the engine refused, by id, with what it said.
  type: dict
  returned: success
  sample: {"long-line": "HTTP 400: This model's maximum context length is 256 tokens"}
problem:
  description: Why the asking was ended, with the prompt at which it was; empty where everything was asked.
  type: str
  returned: success
  sample: "add: timeout: no answer within 120 s"
kind:
  description: The same in a word or two; empty where everything was asked.
  type: str
  returned: success
  sample: timeout
driver:
  description: The version of the NVIDIA driver in the kernel; empty where none is loaded.
  type: str
  returned: success
  sample: 580.173.02
"""

import time
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.answers import (
    CannotAskError,
    LeftOutError,
    question,
    read_answer,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.completion import (
    COMPLETIONS,
    ENGINES,
    api_key,
    reachable,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.parsers.nvidia_driver import parse_proc_version
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.keeper.probe import exchange

PROC_VERSION = "/proc/driver/nvidia/version"
TRIES = 2


def ask_all(parameters: dict[str, Any], key: str, clock: Callable[[], float] = time.monotonic) -> dict[str, Any]:
    """Every prompt as often as asked for; ends at the first that has no answer."""
    end = clock() + parameters["limit"]
    found: dict[str, Any] = {"answers": [[] for _ in range(parameters["times"])], "left_out": {}}
    asked = ""
    try:
        for answers in found["answers"]:
            for one in parameters["prompts"]:
                asked = str(one["id"])
                if asked in found["left_out"]:
                    continue
                try:
                    answer = ask(parameters, key, one, end - clock())
                except LeftOutError as error:
                    found["left_out"][asked] = str(error)
                else:
                    answers.append({"id": asked, **answer})
        if not found["answers"][0]:
            asked, words = next(iter(found["left_out"].items()), ("", "there are no prompts"))
            raise CannotAskError("refused", words)
    except CannotAskError as error:
        words = str(error).replace(key, "********") if key else str(error)
        return {**found, "problem": f"{asked}: {words}", "kind": error.kind}
    return {**found, "problem": "", "kind": ""}


def ask(parameters: dict[str, Any], key: str, prompt: dict[str, Any], left: float) -> dict[str, Any]:
    """One prompt, tried once more where there was no answer."""
    if left <= 0:
        raise CannotAskError("timeout", f"not everything was answered within {parameters['limit']} s")
    body = question(parameters["model"], prompt["prompt"], int(prompt["max_tokens"]), parameters["engine"])
    limit = min(float(parameters["timeout"]), left)
    for number in range(TRIES):
        reply = exchange(parameters["url"], COMPLETIONS, limit, body, key)
        try:
            if reply.problem:
                raise CannotAskError("timeout" if reply.timed_out else "no connection", reply.problem)
            return read_answer(reply.status, reply.body)
        except CannotAskError:
            if number == TRIES - 1 or reply.status in (401, 403, 404):
                raise
    raise AssertionError("unreachable")


def main() -> None:
    """Read the parameters, ask, report."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "model": {"type": "str", "required": True},
            "engine": {"type": "str", "choices": list(ENGINES), "default": "vllm"},
            "key_path": {"type": "path", "default": "/etc/firstlight/server.env", "no_log": False},
            "prompts": {"type": "list", "elements": "dict", "required": True},
            "times": {"type": "int", "default": 1},
            "timeout": {"type": "int", "default": 120},
            "limit": {"type": "int", "default": 3600},
        },
        supports_check_mode=True,
    )
    host = Host()
    key = api_key(host.read_text(module.params["key_path"]) or "")
    if key:
        module.no_log_values.add(key)
    driver = parse_proc_version(host.read_text(PROC_VERSION)).version or ""
    try:
        reachable(module.params["url"])
    except ValueError as error:
        module.fail_json(msg=str(error))
    found: dict[str, Any] = {"answers": [], "left_out": {}, "problem": "", "kind": ""}
    module.exit_json(changed=False, driver=driver, **(found if module.check_mode else ask_all(module.params, key)))


if __name__ == "__main__":
    main()
