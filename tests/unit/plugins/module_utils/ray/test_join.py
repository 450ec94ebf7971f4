# SPDX-License-Identifier: Apache-2.0
"""Who joined, and why one did not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.ray.join import (
    JOIN_SCRIPT,
    Way,
    alive,
    cause,
    elsewhere,
    missing,
    parse_nodes,
    short,
    took_too_long,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import UnitState

NODES = [
    {"address": "192.168.100.10", "alive": True},
    {"address": "192.168.100.11", "alive": False},
    {"address": "192.168.100.12", "alive": False},
    {"address": "192.168.100.12", "alive": True},
]
MEMBERS = {"192.168.100.10": "spark0", "192.168.100.11": "spark1", "192.168.100.12": "spark2"}
LOOPING = UnitState("loaded", "activating", "auto-restart", "exit-code", 3)


def test_what_ended_says_its_own_last_line_not_systemds() -> None:
    log = [
        "Started firstlight-ray.service - Firstlight Ray worker at 192.168.100.11.",
        "Exception: The current node timed out during startup. This could happen because some of the raylet failed",
        "firstlight-ray.service: Deactivated successfully.",
    ]
    told = cause(UnitState("loaded", "inactive", "dead", "success"), log)
    assert 'its last line: "Exception: The current node timed out during startup' in told
    assert took_too_long(log)
    assert not took_too_long(["AuthenticationError"])
    assert "last line" not in cause(UnitState("loaded", "inactive", "dead", "success"), log[:1])


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


@pytest.mark.parametrize(
    ("log", "way", "words"),
    [
        (["Failed to connect to GCS"], Way("192.168.100.11", False, "192.168.100.10:6379"), "on none of its ports"),
        (
            ["the head at 192.168.100.10:6379 takes no connection after 180 s"],
            Way("192.168.100.11", True, "192.168.100.10:6379", "No route to host"),
            r"cannot reach the head at 192.168.100.10:6379 (No route to host)",
        ),
        ([], Way("192.168.100.11", True, "192.168.100.10:6379", "timed out"), "(timed out)"),
        (["Failed to connect to GCS"], Way("192.168.100.11", True, "192.168.100.10:6379", ""), "over the fabric"),
        # A cause of its own says more than the way.
        (["Version mismatch"], Way("192.168.100.11", True, "192.168.100.10:6379", "timed out"), "same image"),
    ],
)
def test_the_way_to_the_head_is_a_cause(log: list[str], way: Way, words: str) -> None:
    assert words in cause(LOOPING, log, way=way)


def test_a_node_that_is_bound_elsewhere_is_found_by_its_name() -> None:
    astray = {"address": "10.0.0.7", "alive": True, "hostname": "spark1.example", "gpus": 1.0}
    assert elsewhere([*NODES, astray], MEMBERS) == {"spark1": "10.0.0.7"}
    assert elsewhere([*NODES, {**astray, "alive": False}], MEMBERS) == {}
    assert elsewhere([*NODES, {**astray, "hostname": "stranger"}], MEMBERS) == {}


def test_gpus_that_are_missing_are_counted() -> None:
    nodes = [{"address": "192.168.100.10", "alive": True, "gpus": 1.0}, NODES[1], {**NODES[3], "gpus": 0.0}]
    assert short(nodes, MEMBERS, 1) == {"spark2": 0}
    assert short(nodes, MEMBERS, 0) == {}


@pytest.mark.slow  # the script waits between two looks
def test_the_script_waits_for_everyone(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text(
        "calls = []\n"
        "def init(**settings):\n"
        "    assert settings['address'] == '192.168.100.10:6379'\n"
        "def nodes():\n"
        "    calls.append(1)\n"
        "    there = [{'NodeManagerAddress': '192.168.100.10', 'Alive': True, 'Resources': {'GPU': 1.0}}]\n"
        "    late = [{'NodeManagerAddress': '192.168.100.11', 'Alive': True}]\n"
        "    return there + (late if len(calls) > 1 else [])\n"
    )

    told: list[str] = []

    def run(size: int, limit: int, gpus: int = 0, complete: bool = True) -> list[str]:
        argv = [sys.executable, "-c", JOIN_SCRIPT, "192.168.100.10:6379", "192.168.100.10,192.168.100.11"]
        argv += [str(size), str(limit), str(gpus)]
        result = subprocess.run(
            argv, check=False, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}, timeout=30
        )
        assert (result.returncode == 0) is complete
        told.append(result.stderr)
        return alive(parse_nodes(result.stdout) or [])

    assert run(2, 20) == ["192.168.100.10", "192.168.100.11"]
    assert run(2, 0, complete=False) == ["192.168.100.10"]
    assert told[-1].startswith("after 0 s: 192.168.100.11 is not in the Ray cluster;")
    assert run(2, 1, gpus=1, complete=False) == ["192.168.100.10", "192.168.100.11"]
    assert "192.168.100.11 offers fewer than 1 GPUs" in told[-1]
