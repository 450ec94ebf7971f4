#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: quality_check
short_description: Check whether a server still gives the accepted answers
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Asks the server of the task's host, which is the head, the fixed prompts of the catalog, keeps the answers on the
    controller, and assesses them by the answers that were accepted for the model, for another revision of it, or for
    the same model in another precision. Every host must have its plan.
  - Prompts are asked one at a time, with temperature 0 and a seed, so that nothing but the server decides the answer.
    One that the engine refuses, as it does not fit into the context, is left out. Any other failure is tried once more
    and then ends the asking.
  - Answers that became worse, or a server that does not answer, are a result and no failure of the task.
  - The action of the same name does what belongs to the controller. This module is the part of it that asks, on the
    host, where the key is read from a file and appears nowhere.
options:
  accept:
    description: Ask twice, and keep the answers as those that later ones are compared with.
    type: bool
    default: false
  baseline:
    description: Ask twice, and keep the answers for a comparison by O(reference) later in the same run.
    type: bool
    default: false
  gate:
    description: >-
      Ask only where C(firstlight_quality.gate) is true or, where it is not set, there are answers to compare with.
    type: bool
    default: false
  reference:
    description: A file of the controller with answers to compare with, in place of the accepted ones.
    type: str
    default: ""
  document:
    description: A file of the controller into which the assessment is written, too.
    type: str
    default: ""
  answers_document:
    description: A file of the controller into which the answers are written, too.
    type: str
    default: ""
  plan:
    description: The variable that has each host's plan.
    type: str
    default: firstlight_plan
  timeout:
    description: Seconds for one answer.
    type: int
    default: 120
  url:
    description: The server as C(http://address:port). A wildcard address is asked through loopback. Set by the action.
    type: str
  model:
    description: The name the model is served under. Set by the action.
    type: str
  engine:
    description: The engine that answers. Set by the action.
    type: str
    choices: [vllm, sglang, tensorrt-llm]
    default: vllm
  key_path:
    description: The environment file with C(VLLM_API_KEY=). Set by the action.
    type: path
    default: /etc/firstlight/server.env
  prompts:
    description: What is asked, each with C(id), C(prompt) and C(max_tokens). Set by the action.
    type: list
    elements: dict
  times:
    description: How often all of it is asked. Set by the action.
    type: int
    default: 1
  limit:
    description: Seconds for all answers. Set by the action.
    type: int
    default: 3600
attributes:
  check_mode:
    description: Asks nothing, and writes nothing.
    support: full
  diff_mode:
    description: There is nothing to compare with.
    support: none
"""

EXAMPLES = r"""
- name: Check whether the answers are still right
  firstlight.cluster.quality_check:
  register: quality
"""

RETURN = r"""
asked:
  description: Whether the server was asked.
  type: bool
  returned: success
assessment:
  description: What the answers come to, as docs/quality.md has it.
  type: dict
  returned: when the server was asked
  sample: {"status": "same", "exact_match": 1.0, "token_agreement": 1.0}
answers:
  description: The file of the controller with the answers; empty where nothing was asked.
  type: str
  returned: success
  sample: /home/me/.local/state/firstlight/mine/quality/answers/20261118T083000Z-1f3a.json
lines:
  description: The assessment for people.
  type: list
  elements: str
  returned: success
  sample: ["same: 45 prompts, exact match 100.0%, token agreement 100.0%, beside the answers of 2026-11-18"]
problem:
  description: Why a change must not be kept, as the answers are worse or there are none; empty where it may.
  type: str
  returned: success
  sample: ""
"""

import time
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.nvidia_driver import parse_proc_version
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.answers import (
    CannotAskError,
    LeftOutError,
    question,
    read_answer,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.completion import (
    COMPLETIONS,
    ENGINES,
    api_key,
    reachable,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.probe import exchange

ARGUMENTS: dict[str, dict[str, Any]] = {
    "accept": {"type": "bool", "default": False},
    "baseline": {"type": "bool", "default": False},
    "gate": {"type": "bool", "default": False},
    "reference": {"type": "str", "default": ""},
    "document": {"type": "str", "default": ""},
    "answers_document": {"type": "str", "default": ""},
    "plan": {"type": "str", "default": "firstlight_plan"},
    "timeout": {"type": "int", "default": 120},
}
SET_BY_THE_ACTION: dict[str, dict[str, Any]] = {
    "url": {"type": "str"},
    "model": {"type": "str"},
    "engine": {"type": "str", "choices": list(ENGINES), "default": "vllm"},
    "key_path": {"type": "path", "default": "/etc/firstlight/server.env", "no_log": False},
    "prompts": {"type": "list", "elements": "dict"},
    "times": {"type": "int", "default": 1},
    "limit": {"type": "int", "default": 3600},
}
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
    module = AnsibleModule(argument_spec={**ARGUMENTS, **SET_BY_THE_ACTION}, supports_check_mode=True)
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
