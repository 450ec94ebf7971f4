# SPDX-License-Identifier: Apache-2.0
"""Two replicas on two nodes behind one address: what clients see when one of them dies."""

from __future__ import annotations

import time
import urllib.error
import urllib.request

import pytest

from tests.serving.asking import forward
from tests.serving.lab import RAY, SERVER, Profile, Serving
from tests.serving.load import Clients
from tests.serving.places import take_place
from tests.serving.processes import wait_for

RAY_SERVE = Profile("tests/serving/inventory/ray-serve", "spark0", ("spark0", "spark1"), "vllm-")
WORKER = RAY_SERVE.nodes[1]
REPLICA = "pgrep -f '^ray::ServeReplica:firstlight:LLMServer'"
ALL = "2 of 2 replicas answer"


def replicas_said(serving: Serving) -> list[str]:
    """What the program has said of its replicas, the last word last."""
    said = serving.inside(
        RAY_SERVE.head, f"journalctl -q -o cat -u {SERVER} | grep -o '[0-9] of 2 replicas answer' || true"
    )
    return said.splitlines()


def all_answer(serving: Serving) -> None:
    wait_for(lambda: replicas_said(serving)[-1:] == [ALL], 300, "that both replicas answer", serving.diagnosis)


def test_ray_serve_answers_from_a_replica_on_each_node(rack: Serving) -> None:
    take_place(rack, RAY_SERVE)
    all_answer(rack)
    for node in RAY_SERVE.nodes:
        assert len(rack.inside(node, REPLICA).split()) == 1, node
    run = rack.playbook("site.yml")
    assert set(run.changed.values()) == {0}, run.output[-6000:]


def test_nobody_is_let_in_without_the_key(rack: Serving) -> None:
    with forward(rack.endpoint.ssh_config, RAY_SERVE.head, 8000) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=30)


def test_a_replica_is_killed_under_load(rack: Serving) -> None:
    """Ray Serve brings it back by itself; the keepers have nothing to do, and nobody needs more than one retry."""
    began = rack.before_a_fault()
    clients = Clients(rack.endpoint)
    clients.start()
    time.sleep(15)
    killed, told = time.monotonic(), len(replicas_said(rack))
    rack.inside(WORKER, f"kill -9 $({REPLICA})")
    load = clients.wait()
    all_answer(rack)
    wait_for(lambda: len(replicas_said(rack)) > told, 300, "that the loss was seen", rack.diagnosis)
    all_answer(rack)
    rack.record("one of two replicas killed under load", killed, time.monotonic() - killed, load.summary)
    assert load.answered > 10, load
    assert load.failed_twice == 0, load
    assert rack.engine_seconds(began, 0) is None, "the group was taken down for one replica"


def test_a_worker_node_is_lost_under_load_and_joins_again(rack: Serving) -> None:
    """The other replica goes on; the node's own keeper brings its Ray back, and Ray Serve the replica."""
    began = rack.before_a_fault()
    clients = Clients(rack.endpoint)
    clients.start()
    time.sleep(15)
    killed, told = time.monotonic(), len(replicas_said(rack))
    rack.inside(WORKER, f"docker kill {RAY}")
    load = clients.wait()
    wait_for(lambda: len(replicas_said(rack)) > told + 1, 300, "that it was lost and came back", rack.diagnosis)
    all_answer(rack)
    rack.record("one of two worker nodes lost under load", killed, time.monotonic() - killed, load.summary)
    assert load.failed_twice == 0, load
    assert rack.engine_seconds(began, 0) is None, "the group was taken down for one worker"
