#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: chat_completion
short_description: Wait until a server has answered a real completion request
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Asks an OpenAI-compatible server for a chat completion until one comes back with the expected shape and from the
    expected number of GPUs, as far as the engine tells it. A port that is open or a health page that answers prove
    nothing. Any other answer means "not ready yet", and the last one is reported after the timeout.
  - Fails at once where waiting cannot help, as the server refuses the key or a completion shows other settings than
    planned. Fails after 30 seconds where the engine refuses the request (400, 422, or 404 for the model) in the same
    words each time.
  - Stops waiting as soon as the server's unit cannot come up any more, and shows its last lines. Where a supervisor
    keeps the unit up, that is when the supervisor has given it up, or has failed to start it three times meanwhile.
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
- name: Request a completion
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.completion import ENGINES, WrongAnswerError
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.completion_gate import (
    DEFAULTS,
    GateError,
    complete,
    server_key,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.units import last_lines


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "model": {"type": "str", "required": True},
            "key_path": {"type": "path", "default": DEFAULTS["key_path"], "no_log": False},
            "expect_tensor_parallel": {"type": "int", "required": True},
            "engine": {"type": "str", "choices": list(ENGINES), "default": DEFAULTS["engine"]},
            "service": {"type": "str", "default": DEFAULTS["service"]},
            "timeout": {"type": "int", "default": DEFAULTS["timeout"]},
            "prompt": {"type": "str", "default": DEFAULTS["prompt"]},
            "max_tokens": {"type": "int", "default": DEFAULTS["max_tokens"], "no_log": False},
        },
        supports_check_mode=True,
    )
    host = Host()
    key = server_key(host, module.params)
    if key:
        module.no_log_values.add(key)
    try:
        result = complete(host, module.params)
    except (GateError, WrongAnswerError, ValueError) as error:
        log = last_lines(host, module.params["service"], 30, [key])
        told = "".join(f"\n  {line[:300]}" for line in log[-12:])
        module.fail_json(msg=f"{error}\nlast lines of {module.params['service']}:{told or ' none'}", log=log)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
