# SPDX-License-Identifier: Apache-2.0
"""ray_nodes, with a Docker that answers from a list."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.modules.ray_nodes import wait

STATUS = Path(__file__).resolve().parents[3] / "fixtures" / "ray" / "status-2.40-two-nodes.txt"
PARAMETERS: dict[str, Any] = {
    "container": "firstlight-ray",
    "service": "firstlight-ray.service",
    "address": "192.168.100.10:6379",
    "members": {"192.168.100.10": "spark0", "192.168.100.11": "spark1"},
    "size": 2,
    "gpus": 1,
    "timeout": 30,
}


def nodes(*addresses: str) -> str:
    return "\nfirstlight-nodes " + json.dumps(
        [{"address": address, "alive": True, "gpus": 1.0, "hostname": ""} for address in addresses]
    )


class Docker(Host):
    """Answers each question with the next of its answers, and keeps the time."""

    def __init__(self, *answers: Result, states: Sequence[str] = ("activating",)) -> None:
        self.answers = list(answers)
        self.states = list(states)
        self.now = 0.0
        self.asked: list[tuple[str, ...]] = []

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> Result:
        assert timeout > 0
        assert env is None
        assert stdin is None
        self.asked.append(tuple(argv))
        if argv[0] == "systemctl":
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            return Result(tuple(argv), 0, f"LoadState=loaded\nActiveState={state}\n" if state else "")
        if argv[-1] == "status":
            return Result(tuple(argv), 0, STATUS.read_text())
        self.now += 5
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def pause(self, seconds: float) -> None:
        self.now += seconds


def judge(docker: Docker) -> dict[str, Any]:
    return wait(docker, PARAMETERS, clock=lambda: docker.now, pause=docker.pause)


def test_everyone_is_there() -> None:
    docker = Docker(Result(("docker",), 0, nodes("192.168.100.10", "192.168.100.11")))
    assert judge(docker) == {
        "alive": ["192.168.100.10", "192.168.100.11"],
        "absent": [],
        "missing": [],
        "short": {},
        "elsewhere": {},
        "summary": "2 of 2 nodes joined in 5 s",
    }
    assert docker.asked[0][:4] == ("docker", "exec", "firstlight-ray", "python3")
    assert docker.asked[0][-5:] == ("192.168.100.10:6379", "192.168.100.10,192.168.100.11", "2", "30", "1")


def test_a_head_that_is_still_starting_is_asked_again() -> None:
    starting = Result(("docker",), 1, "", "Error: No such container: firstlight-ray")
    docker = Docker(starting, starting, Result(("docker",), 0, nodes("192.168.100.10", "192.168.100.11")))
    assert judge(docker)["missing"] == []


def test_a_missing_node_is_named() -> None:
    result = judge(Docker(Result(("docker",), 0, nodes("192.168.100.10"))))
    assert result["missing"] == result["absent"] == ["spark1"]
    assert result["summary"] == "1 of 2 nodes joined in 5 s; Ray says: 2 active nodes with 2 GPUs"


def test_a_head_that_never_answers_is_given_up() -> None:
    docker = Docker(Result(("docker",), 1, "", "Traceback\nConnectionError: refused"))
    result = judge(docker)
    assert result["missing"] == ["spark0"], "the cause is told once"
    assert result["absent"] == ["spark0", "spark1"], "a worker may have given up with it"
    assert result["summary"] == ("Ray on the head at 192.168.100.10:6379 does not answer (ConnectionError: refused)")
    assert docker.now < 60


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_a_head_that_has_ended_is_not_waited_for(state: str) -> None:
    docker = Docker(Result(("docker",), 1, "", "Error: No such container: firstlight-ray"), states=[state])
    assert judge(docker)["missing"] == ["spark0"]
    assert docker.now < 15


def test_a_start_that_was_only_asked_for_and_a_silent_systemd_are_waited_for() -> None:
    starting = Result(("docker",), 1, "", "Error: No such container: firstlight-ray")
    there = Result(("docker",), 0, nodes("192.168.100.10", "192.168.100.11"))
    docker = Docker(starting, starting, starting, starting, there, states=["inactive", "activating", "", ""])
    assert judge(docker)["missing"] == []
