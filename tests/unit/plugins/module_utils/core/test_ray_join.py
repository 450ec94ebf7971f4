# SPDX-License-Identifier: Apache-2.0
"""Who joined, and why one did not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.ray_join import (
    JOIN_SCRIPT,
    alive,
    cause,
    missing,
    parse_nodes,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.systemd import UnitState

NODES = [
    {"address": "192.168.100.10", "alive": True},
    {"address": "192.168.100.11", "alive": False},
    {"address": "192.168.100.12", "alive": False},
    {"address": "192.168.100.12", "alive": True},
]
MEMBERS = {"192.168.100.10": "spark0", "192.168.100.11": "spark1", "192.168.100.12": "spark2"}
LOOPING = UnitState("loaded", "activating", "auto-restart", "exit-code", 3)


def test_parse_nodes_finds_its_line_among_others() -> None:
    text = f"WARNING something\n\nfirstlight-nodes {json.dumps(NODES)}\n"
    assert parse_nodes(text) == NODES
    assert parse_nodes("Traceback (most recent call last):\n") is None
    assert parse_nodes("") is None


def test_a_node_that_came_back_counts_as_alive() -> None:
    assert alive(NODES) == ["192.168.100.10", "192.168.100.12"]
    assert missing(NODES, MEMBERS) == ["spark1"]


@pytest.mark.parametrize(
    ("state", "log", "words"),
    [
        (UnitState("masked"), [], "is masked; unmask it"),
        (UnitState(), [], "has no unit"),
        (
            LOOPING,
            ["RuntimeError: Failed", "InvalidAuthToken: token is missing or incorrect"],
            "its token differs from the head's",
        ),
        (LOOPING, ["ray.exceptions.AuthenticationError: ..."], "its token differs from the head's"),
        (LOOPING, ["RuntimeError: Version mismatch: The cluster was started with:"], "same image"),
        (LOOPING, ["docker: Error response from daemon: No such image: x"], "inference_image role"),
        (
            LOOPING,
            ["invalid mount config: bind source path does not exist: /srv/x"],
            "model directory or the token",
        ),
        (LOOPING, ['could not select device driver "" with capabilities: [[gpu]]'], "container toolkit"),
        (
            LOOPING,
            ["Failed to connect to GCS at address 192.168.100.10:6379"],
            "cannot reach the head over the fabric",
        ),
        (UnitState("loaded", "inactive", "dead"), [], "is inactive (dead)"),
        (LOOPING, ["something new"], "names no known cause"),
    ],
)
def test_cause(state: UnitState, log: list[str], words: str) -> None:
    assert words in cause(state, log)


def test_a_token_that_differs_explains_everything_else() -> None:
    refused = ["Failed to connect to GCS at address 192.168.100.10:6379"]
    assert cause(LOOPING, refused, same_token=False).startswith("its token differs from the head's")


def test_the_script_waits_for_everyone(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text(
        "calls = []\n"
        "def init(**settings):\n"
        "    assert settings['address'] == '192.168.100.10:6379'\n"
        "def nodes():\n"
        "    calls.append(1)\n"
        "    there = [{'NodeManagerAddress': '192.168.100.10', 'Alive': True}]\n"
        "    late = [{'NodeManagerAddress': '192.168.100.11', 'Alive': True}]\n"
        "    return there + (late if len(calls) > 1 else [])\n"
    )

    def run(size: int, limit: int) -> list[str]:
        argv = [sys.executable, "-c", JOIN_SCRIPT, "192.168.100.10:6379", "192.168.100.10,192.168.100.11"]
        argv += [str(size), str(limit)]
        result = subprocess.run(
            argv, check=True, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}, timeout=30
        )
        return alive(parse_nodes(result.stdout) or [])

    assert run(2, 20) == ["192.168.100.10", "192.168.100.11"]
    assert run(2, 0) == ["192.168.100.10"]
