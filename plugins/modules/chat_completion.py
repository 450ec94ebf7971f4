#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: chat_completion
short_description: Wait until a server has answered a real question
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Asks an OpenAI-compatible server for a chat completion until one comes back with the expected shape and from the
    expected number of GPUs, as far as the engine tells it. A port that is open or a health page that answers prove
    nothing. Any other answer is "not ready yet", and the last one is told when the time is over.
  - Fails at once where waiting cannot help, as the server refuses the key or a completion shows other settings than
    planned. Fails after 30 seconds where the engine refuses the request (400, 422, or 404 for the model) in the same
    words each time.
  - Stops waiting as soon as the server's unit cannot come up any more, and shows its last lines. Where a keeper keeps
    the unit up, that is when the keeper has given it up, or has failed to start it three times meanwhile.
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
  key_path:
    description: The environment file with C(VLLM_API_KEY=).
    type: path
    default: /etc/firstlight/server.env
  engine:
    description: >-
      The engine that answers. vLLM says in every completion of how many GPUs it is, SGLang is asked for its
      settings, and TensorRT-LLM does not tell.
    type: str
    choices: [vllm, sglang, tensorrt-llm]
    default: vllm
  expect_tensor_parallel:
    description: The tensor parallel size the answer must come from.
    type: int
    required: true
  service:
    description: The server's unit.
    type: str
    default: firstlight-server.service
  timeout:
    description: Seconds to wait for the answer.
    type: int
    default: 900
  prompt:
    description: The question.
    type: str
    default: Say hello in one short sentence.
  max_tokens:
    description: The longest answer.
    type: int
    default: 32
attributes:
  check_mode:
    description: Changes nothing, so it runs in check mode too.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
"""

EXAMPLES = r"""
- name: Ask the server
  firstlight.cluster.chat_completion:
    url: http://127.0.0.1:290
    model: tiny
    expect_tensor_parallel: 4
"""

RETURN = r"""
reply:
  description: What the model said.
  type: str
  returned: success
fingerprint:
  description: The server's C(system_fingerprint), or what is known of an engine that has none.
  type: str
  returned: success
  sample: vllm-0.32.0-tp4-0123abcd
tokens:
  description: Tokens of the answer.
  type: int
  returned: success
seconds:
  description: Seconds until the answer was there, waiting included.
  type: float
  returned: success
completion_seconds:
  description: Seconds the answered request took.
  type: float
  returned: success
log:
  description: The last lines of the server's unit.
  type: list
  elements: str
  returned: failure
"""

import dataclasses
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.completion import (
    COMPLETIONS,
    ENGINES,
    SETTINGS_PAGE,
    Answer,
    NotYetError,
    RefusedError,
    WrongAnswerError,
    api_key,
    hopeless,
    judge,
    reachable,
    request_body,
    settings_fingerprint,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.serving.files import STATE_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.core.serving_kinds import (
    group_of_unit,
    keeper_words,
    kept_in_vain,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.units import last_lines, unit_state

REQUEST_SECONDS = 300
"""The first answer may compile kernels; a request that takes longer than this counts as not answered."""

PAUSE_SECONDS = 2.0

REFUSED_SECONDS = 30.0
"""An engine that refuses the same request for so long in the same words is up: its model and settings stay the same."""


class GateError(Exception):
    """Why the server does not count as up."""


def ask(parameters: dict[str, Any], key: str, remaining: float) -> Answer:
    """One question; raises NotYetError while asking again makes sense."""
    size, engine = parameters["expect_tensor_parallel"], parameters.get("engine", "vllm")
    body = request_body(parameters["model"], parameters["prompt"], parameters["max_tokens"])
    answer = judge(*exchange(parameters["url"], COMPLETIONS, key, remaining, body), size, engine)
    if engine != "sglang":
        return answer
    told = settings_fingerprint(*exchange(parameters["url"], SETTINGS_PAGE, key, remaining), size)
    return dataclasses.replace(answer, fingerprint=told)


def exchange(url: str, path: str, key: str, remaining: float, data: bytes | None = None) -> tuple[int, str]:
    """Status and text of one request; raises NotYetError where there is no answer."""
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(  # noqa: S310 - `reachable` let only http and https through
        f"{reachable(url)}{path}", data=data, headers=headers
    )
    # The server is on this host or its own network: never through a proxy, which would see the key.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=min(max(remaining, 1.0), REQUEST_SECONDS)) as response:
            return response.status, response.read().decode("utf-8", errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise NotYetError(str(getattr(error, "reason", None) or error)) from error


def keeper_file(host: Host) -> tuple[str | None, float | None]:
    """What the keeper has written, and how many seconds ago."""
    stamp = host.size_and_mtime(STATE_PATH)
    return (None, None) if stamp is None else (host.read_text(STATE_PATH), time.time() - stamp[1] / 1e9)


def keeper_of(host: Host, service: str) -> dict[str, Any] | None:
    """What the keeper says of the group that the unit belongs to; None where none keeps it."""
    return group_of_unit(*keeper_file(host), service)


def keeper_says(host: Host) -> str:
    """The keeper knows more than the server's own log: whom it waits for, and why the last start ended."""
    words = keeper_words(*keeper_file(host))
    return f". The keeper says: {words}" if words else ""


def wait(
    host: Host,
    parameters: dict[str, Any],
    key: str,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Ask until there is an answer, the time is over, or the unit cannot come up any more."""
    started = clock()
    service = parameters["service"]
    before, kept = unit_state(host, service), keeper_of(host, service)
    refused, refused_since = "", started
    while True:
        asked = clock()
        try:
            answer = ask(parameters, key, parameters["timeout"] - (asked - started))
        except NotYetError as error:
            words = str(error) if isinstance(error, RefusedError) else ""
            if words != refused:
                refused, refused_since = words, clock()
            elif refused and clock() - refused_since >= REFUSED_SECONDS:
                told = f"the server at {parameters['url']} refuses the request ({error}), in the same words for "
                raise GateError(f"{told}{REFUSED_SECONDS:.0f} s: correct the model or its settings") from error
            group = keeper_of(host, service)
            if group and (in_vain := kept_in_vain(kept, group)):
                raise GateError(f"the server at {parameters['url']} does not answer ({error}): {in_vain}") from error
            if not group and (in_vain := hopeless(service, before, unit_state(host, service))):
                told = f"the server at {parameters['url']} does not answer ({error}): {in_vain}"
                raise GateError(told + keeper_says(host)) from error
            if clock() - started >= parameters["timeout"]:
                told = (
                    f"the server at {parameters['url']} gave no completion within {parameters['timeout']} s "
                    f"(last: {error}), its unit {service} is {unit_state(host, service).words}: see its last lines; a "
                    "large model may need a longer inference_server_start_timeout"
                )
                raise GateError(told + keeper_says(host)) from error
            pause(PAUSE_SECONDS)
            continue
        return {
            "reply": answer.reply,
            "fingerprint": answer.fingerprint,
            "tokens": answer.tokens,
            "seconds": round(clock() - started, 1),
            "completion_seconds": round(clock() - asked, 2),
        }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "model": {"type": "str", "required": True},
            "key_path": {"type": "path", "default": "/etc/firstlight/server.env", "no_log": False},
            "expect_tensor_parallel": {"type": "int", "required": True},
            "engine": {"type": "str", "choices": list(ENGINES), "default": "vllm"},
            "service": {"type": "str", "default": "firstlight-server.service"},
            "timeout": {"type": "int", "default": 900},
            "prompt": {"type": "str", "default": "Say hello in one short sentence."},
            "max_tokens": {"type": "int", "default": 32, "no_log": False},
        },
        supports_check_mode=True,
    )
    host = Host()
    key = api_key(host.read_text(module.params["key_path"]) or "")
    if key:
        module.no_log_values.add(key)
    try:
        reachable(module.params["url"])
        result = wait(host, module.params, key)
    except (GateError, WrongAnswerError, ValueError) as error:
        log = last_lines(host, module.params["service"], 30, [key])
        told = "".join(f"\n  {line[:300]}" for line in log[-12:])
        module.fail_json(msg=f"{error}\nlast lines of {module.params['service']}:{told or ' none'}", log=log)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
