# SPDX-License-Identifier: Apache-2.0
"""ray_nodes, with a Docker that answers from a list, and a way to the head on loopback."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.modules.ray_nodes import wait, way_to_head

from tests.unit.fake_host import Call, FakeHost, Reply

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


class Docker(FakeHost):
    """Answers each question with the next of its answers, five seconds later."""

    def __init__(self, *answers: Result, states: Sequence[str] = ("activating",)) -> None:
        shown: list[Reply] = [f"LoadState=loaded\nActiveState={state}\n" if state else "" for state in states]
        super().__init__({"systemctl": shown, "docker": list(answers)})

    def answer(self, call: Call) -> Reply:
        if call.argv[-1] == "status":
            return STATUS.read_text()
        self.pause(0 if call.argv[0] == "systemctl" else 5)
        return super().answer(call)


def evaluate(docker: Docker) -> dict[str, Any]:
    return wait(docker, PARAMETERS, clock=docker.clock, pause=docker.pause)


def test_everyone_is_there() -> None:
    docker = Docker(Result(("docker",), 0, nodes("192.168.100.10", "192.168.100.11")))
    assert evaluate(docker) == {
        "alive": ["192.168.100.10", "192.168.100.11"],
        "absent": [],
        "missing": [],
        "short": {},
        "elsewhere": {},
        "summary": "2 of 2 nodes joined in 5 s",
    }
    assert docker.ran[0][:4] == ("docker", "exec", "firstlight-ray", "python3")
    assert docker.ran[0][-5:] == ("192.168.100.10:6379", "192.168.100.10,192.168.100.11", "2", "30", "1")


def test_a_head_that_is_still_starting_is_asked_again() -> None:
    starting = Result(("docker",), 1, "", "Error: No such container: firstlight-ray")
    docker = Docker(starting, starting, Result(("docker",), 0, nodes("192.168.100.10", "192.168.100.11")))
    assert evaluate(docker)["missing"] == []


def test_a_missing_node_is_named() -> None:
    result = evaluate(Docker(Result(("docker",), 0, nodes("192.168.100.10"))))
    assert result["missing"] == result["absent"] == ["spark1"]
    assert result["summary"] == "1 of 2 nodes joined in 5 s; Ray reports: 2 active nodes with 2 GPUs"


def test_a_head_that_never_answers_is_given_up() -> None:
    docker = Docker(Result(("docker",), 1, "", "Traceback\nConnectionError: refused"))
    result = evaluate(docker)
    assert result["missing"] == ["spark0"], "the cause is told once"
    assert result["absent"] == ["spark0", "spark1"], "a worker may have given up with it"
    assert result["summary"] == ("Ray on the head at 192.168.100.10:6379 does not answer (ConnectionError: refused)")
    assert docker.now < 60


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_a_head_that_has_ended_is_not_waited_for(state: str) -> None:
    docker = Docker(Result(("docker",), 1, "", "Error: No such container: firstlight-ray"), states=[state])
    assert evaluate(docker)["missing"] == ["spark0"]
    assert docker.now < 15


def test_a_start_that_was_only_asked_for_and_a_silent_systemd_are_waited_for() -> None:
    starting = Result(("docker",), 1, "", "Error: No such container: firstlight-ray")
    there = Result(("docker",), 0, nodes("192.168.100.10", "192.168.100.11"))
    docker = Docker(starting, starting, starting, starting, there, states=["inactive", "activating", "", ""])
    assert evaluate(docker)["missing"] == []


def test_a_head_that_takes_connections_is_no_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        way = way_to_head("127.0.0.1", f"127.0.0.1:{head.getsockname()[1]}")
    assert way.problem is None


def test_a_head_that_refuses_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
    assert "cannot reach the head at 127.0.0.1" in (way_to_head("127.0.0.1", f"127.0.0.1:{port}").problem or "")


def test_an_address_that_is_not_on_the_node_is_told() -> None:
    # TEST-NET-1: nobody has it, and nothing is sent before it is bound.
    way = way_to_head("192.0.2.1", "127.0.0.1:6379")
    assert way.here is False
    assert "192.0.2.1 is on none of its ports" in (way.problem or "")
