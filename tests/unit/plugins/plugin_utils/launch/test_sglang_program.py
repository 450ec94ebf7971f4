# SPDX-License-Identifier: Apache-2.0
"""The program that starts SGLang: the engine gets the key, its command line and its log do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.sglang_program import PROGRAM

KEY = "ab" * 32
# As the real one: handlers are made anew, and all settings are written into the log.
ENGINE = """
import logging, sys
logging.basicConfig(level=logging.INFO, force=True)
logging.getLogger("engine").info("server_args=%s", sys.argv[1:])
logging.getLogger("engine").info(f"server_args={sys.argv[1:]}")
command = open("/proc/self/cmdline").read()
print("words", len(sys.argv), "last", len(sys.argv[-1]), "shown", sys.argv[-1] in command)
"""


def run(tmp_path: Path, key: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "launch_server.py").write_text(ENGINE)
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "VLLM_API_KEY": key}
    argv = [sys.executable, str(tmp_path / "program.py"), "--tp-size=2"]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def test_the_key_reaches_the_engine_and_nobody_else(tmp_path: Path) -> None:
    done = run(tmp_path, KEY)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "words 4 last 64 shown False\n"
    assert done.stderr.count("'--api-key', '********'") == 2
    assert KEY not in done.stderr


def test_without_a_key_nothing_is_served(tmp_path: Path) -> None:
    done = run(tmp_path, "")
    assert done.returncode == 1
    assert "VLLM_API_KEY is empty" in done.stderr
