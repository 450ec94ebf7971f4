# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.modules import change_history as module

pytestmark = pytest.mark.slow  # the module in a process of its own, as on a host

ROOT = Path(__file__).parents[4]


def run(check: bool = False, **arguments: Any) -> dict[str, Any]:
    """The module as a program of its own, the way a target runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.firstlight.cluster.plugins.modules.change_history"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check}}),
        env={**os.environ, "PYTHONPATH": str(ROOT / "collections")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("check", [False, True])
def test_a_real_host_is_asked_and_nothing_changes(tmp_path: Path, check: bool) -> None:
    result = run(check, packages={"no-such-package": None}, paths=[str(tmp_path)], sysctl=["no.such"])
    assert result["changed"] is False
    assert result["history"]["packages"] == {}
    assert result["history"]["boot"].endswith("Z")
    assert result["history"]["paths"][str(tmp_path)]["changed"].endswith("Z")
    assert result["history"]["sysctl"] == {}


def test_the_documented_options_are_the_real_ones() -> None:
    documentation = yaml.safe_load(module.DOCUMENTATION)
    message = run(wrong=1)["msg"]
    assert all(option in message for option in documentation["options"])
    assert documentation["attributes"]["check_mode"]["support"] == "full"
    assert yaml.safe_load(module.EXAMPLES)
    assert yaml.safe_load(module.RETURN)
