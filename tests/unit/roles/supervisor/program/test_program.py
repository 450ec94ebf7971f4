# SPDX-License-Identifier: Apache-2.0
"""The supervisor as it is shipped, one text in processes of its own, on nodes whose units serve, die and come back."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from .stand_ins import FAST, KEY, TOKEN, Cluster, cluster

pytestmark = pytest.mark.slow  # real programs that wait for each other


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, 3) as made:
        yield made


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, 1) as made:
        yield made


def test_a_group_is_brought_up_in_order_and_again_as_a_whole_when_a_rank_dies(three: Cluster) -> None:
    three.start()
    three.wait_for("serving")
    assert three.head.log == ["start ray.service", "start server.service"]
    first = three.head.group()
    assert first["nodes"]["n2"]["units"] == {"ray.service": "running"}
    assert first["probe"]["answered_at"]
    assert three.serving.asked[-1] == f"Bearer {KEY}"
    three.wait(lambda: three.nodes[2].group().get("phase") == "serving")

    three.nodes[2].unit("ray.service").write_text("failed\n")
    three.wait(lambda: three.head.group()["epoch"] != first["epoch"] and three.head.group()["phase"] == "serving")
    again = three.head.group()
    assert any("exit status 125" in entry["event"] for entry in again["history"])
    assert three.nodes[1].log == ["start ray.service", "stop ray.service", "start ray.service"]
    told = three.head.journal + three.nodes[2].journal + json.dumps(three.head.state)
    assert "RuntimeError: engine said" in told
    assert "notforyoureyes" not in told
    assert KEY not in told
    assert TOKEN not in told


def test_a_restarted_supervisor_goes_on_and_a_stopped_one_leaves_the_units(three: Cluster) -> None:
    for node in three.nodes:
        node.config["groups"][0]["timing"] = {**FAST, "heartbeat_timeout": 20}
    three.start()
    three.wait_for("serving")
    epoch = three.head.group()["epoch"]
    assert three.nodes[1].end() == 0
    three.nodes[1].start()
    three.wait(lambda: three.head.journal.count("n1 is connected") == 2)
    assert three.head.end() == 0
    three.head.start()
    three.wait(lambda: three.head.journal.count("group server: serves") == 2)
    three.wait(lambda: three.head.group()["epoch"] == epoch)
    assert [node.log.count("start ray.service") for node in three.nodes] == [1, 1, 1]
    assert not any(line.startswith("stop") for node in three.nodes for line in node.log)


def test_a_node_whose_head_is_gone_stops_its_units(three: Cluster) -> None:
    three.start()
    three.wait_for("serving")
    three.head.end(signal.SIGKILL)
    three.wait(lambda: three.nodes[1].unit("ray.service").read_text() == "inactive\n")
    assert three.nodes[1].state["connected"] is False
    assert "cannot be reached" in three.nodes[1].state["problem"]
    assert three.head.unit("ray.service").read_text() == "active\n"


def test_a_wrong_token_is_named_on_both_sides_and_a_stranger_is_sent_away(three: Cluster) -> None:
    three.nodes[1].token.write_text("another-token-0123456789")
    three.start()
    three.wait(lambda: three.head.state)
    port = three.head.config["head"]["port"]
    for words in (b"GET / HTTP/1.1\r\n\r\n", b"x" * 1_000_000, b'{"node":"n1","version":1}\n'):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as stranger:
            stranger.sendall(words)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(4096):
                pass
    three.wait(lambda: "token" in three.head.group().get("missing", {}).get("n1", ""))
    three.wait(lambda: "token" in three.nodes[1].state.get("problem", ""))
    assert three.head.group()["phase"] == "gathering"
    three.nodes[1].token.write_text(f"{TOKEN}-n1")
    three.wait_for("serving", 20)


def test_a_reload_restarts_the_group(one: Cluster) -> None:
    one.start()
    one.wait_for("serving")
    epoch = one.head.group()["epoch"]
    one.head.send(signal.SIGHUP)
    one.wait(lambda: one.head.group()["epoch"] != epoch and one.head.group()["phase"] == "serving")
    assert one.head.log.count("start server.service") == 2


def test_it_gives_up_remembers_it_and_forgets_it_with_its_file(one: Cluster) -> None:
    (one.head.place / "broken").touch()
    one.start()
    assert one.head.supervisor is not None
    assert one.head.supervisor.wait(60) == 3
    assert one.head.group()["phase"] == "failed"
    assert "ray.service" in one.head.group()["why"]
    (one.head.place / "broken").unlink()
    starts = len(one.head.log)
    one.head.start()
    assert one.head.supervisor.wait(60) == 3
    assert not any(line.startswith("start") for line in one.head.log[starts:])
    (one.head.place / "state" / "supervisor.json").unlink()
    one.head.start()
    one.wait_for("serving")


@pytest.mark.extended  # test_node has the marker, test_machine_failures what comes of it
def test_a_drained_node_is_left_in_peace(one: Cluster) -> None:
    one.start()
    one.wait_for("serving")
    marker = one.head.place / "state/drained"
    marker.touch()
    one.wait_for("drained")
    assert one.head.unit("server.service").read_text() == "inactive\n"
    marker.unlink()
    one.wait_for("serving")


def test_a_docker_that_is_down_is_told_and_a_container_that_was_left_behind_is_removed(one: Cluster) -> None:
    one.start()
    one.wait_for("serving")
    down = one.head.place / "docker-is-down"
    down.touch()
    one.head.unit("server.service").write_text("inactive\n")
    one.wait(lambda: "Cannot connect to the Docker daemon" in json.dumps(one.head.group()["nodes"]["n0"]["problems"]))
    (one.head.place / "containers/server").touch()
    down.unlink()
    one.wait(lambda: one.head.log.count("start server.service") == 2)
    assert "remove server" in one.head.log
    one.wait_for("serving")


@pytest.mark.extended  # test_probe has the answer, test_machine what comes of it
def test_a_server_that_says_yes_and_completes_nothing_is_restarted(one: Cluster) -> None:
    one.start()
    one.wait_for("serving")
    good = one.serving.completion
    one.serving.completion = {"choices": [], "usage": {"completion_tokens": 0}}
    one.wait(lambda: one.head.group()["phase"] != "serving")
    one.serving.completion = good
    one.wait_for("serving")
    assert any("without a completion" in entry["event"] for entry in one.head.group()["history"])


@pytest.mark.extended  # test_probe has the answer, test_machine what comes of it
def test_a_proxy_without_a_route_is_not_ready_until_it_completes(one: Cluster) -> None:
    one.serving.status = 404
    one.serving.text = "Path '/v1/chat/completions' not found. Ping http://.../-/routes for available routes."
    one.start()
    one.wait(lambda: len(one.serving.asked) > 4)
    shown = one.head.group()
    assert shown["phase"] == "warming"
    assert one.serving.text in shown["why"]
    one.serving.status, one.serving.text = 200, ""
    one.wait_for("serving")
    assert [entry["event"] for entry in one.head.group()["history"]][-2:] == [
        "everything runs: waits for the first completion",
        "serves",
    ]


@pytest.mark.extended  # test_machine has what is remembered and forgotten
def test_a_failed_start_is_shown_with_the_time_when_it_is_forgotten(one: Cluster) -> None:
    one.head.config["groups"][0]["timing"] = {**FAST, "stable_after": 2}
    (one.head.place / "broken").touch()
    one.start()
    one.wait(lambda: one.head.group().get("attempts") == 1)
    assert one.head.group()["forgotten_at"] is None
    (one.head.place / "broken").unlink()
    one.wait(lambda: one.head.group().get("forgotten_at"))
    assert one.head.group()["phase"] == "serving"
    one.wait(lambda: one.head.group()["attempts"] == 0)
    assert one.head.group()["forgotten_at"] is None


@pytest.mark.extended  # test_probe has the answer, test_machine what comes of it
def test_a_server_that_refuses_the_key_is_alive(one: Cluster) -> None:
    one.start()
    one.wait_for("serving")
    one.serving.status = 401
    asked = len(one.serving.asked)
    one.wait(lambda: len(one.serving.asked) > asked + 4)
    assert one.head.group()["phase"] == "serving"
    one.wait(lambda: "refuses the key" in one.head.group()["probe"]["words"])


@pytest.mark.extended  # test_parts has the file that cannot be written
def test_a_state_directory_that_cannot_be_written_does_not_kill_it(one: Cluster) -> None:
    state = one.head.place / "state"
    state.rmdir()
    state.write_text("in the way")
    one.start()
    one.wait_for("serving")
    one.wait(lambda: "cannot be written" in one.head.state["problem"])
    state.unlink()
    state.mkdir(exist_ok=True)  # the supervisor may have been faster
    one.wait((state / "supervisor.json").is_file)
    one.wait(lambda: one.head.state["problem"] == "")


def test_replicas_are_kept_apart(one: Cluster) -> None:
    (group,) = one.head.config["groups"]
    one.serving.units = []
    one.head.config["groups"] = [
        {**group, "name": name, "nodes": {"n0": [{"unit": f"{name}.service", "stage": 0, "container": name}]}}
        for name in ("server-0", "server-1")
    ]
    one.start()
    for name in ("server-0", "server-1"):
        one.wait(lambda name=name: one.head.group(name).get("phase") == "serving")  # type: ignore[misc]
    one.head.unit("server-1.service").write_text("failed\n")
    one.wait(lambda: one.head.log.count("start server-1.service") == 2)
    one.wait(lambda: one.head.group("server-1").get("phase") == "serving")
    assert one.head.log.count("start server-0.service") == 1


@pytest.mark.parametrize("arguments", [(), ("--check",)], ids=["run", "check"])
def test_a_wrong_configuration_is_told(one: Cluster, arguments: tuple[str, ...]) -> None:
    one.head.config["groups"][0]["timing"] = {"start_timeout": -1}
    one.head.start(*arguments)
    assert one.head.wait() == 2
    assert "timing.start_timeout is -1.0, expected more than 0; run playbooks/serve.yml" in one.head.journal
