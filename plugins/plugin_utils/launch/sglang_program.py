# SPDX-License-Identifier: Apache-2.0
"""The program that starts SGLang with an API key.

SGLang takes a key only as an argument, which every user of a host can read, and logs all its settings at start,
including the key. So the key is added to the argument list inside its own process, after the start.
"""

from __future__ import annotations

PROGRAM = r"""# Written by Firstlight: starts SGLang with the API key out of its environment (docs/launch.md).
import logging
import os
import runpy
import sys

KEY = os.environ.get("VLLM_API_KEY", "")
make_record = logging.getLogRecordFactory()


def without_key(*words, **more):
    record = make_record(*words, **more)
    if KEY and KEY in record.getMessage():
        record.msg, record.args = record.getMessage().replace(KEY, "********"), ()
    return record


# Not a filter of a handler, because SGLang makes its handlers anew; processes that it spawns run this line, too.
logging.setLogRecordFactory(without_key)

if __name__ == "__main__":
    if not KEY:
        sys.exit("VLLM_API_KEY is empty, expected the key of /etc/firstlight/server.env: run playbooks/serve.yml")
    # Only this process's own list: what others see of its command line is what it was started with.
    sys.argv = ["sglang.launch_server", *sys.argv[1:], "--api-key", KEY]
    runpy.run_module("sglang.launch_server", run_name="__main__")
"""
