# SPDX-License-Identifier: Apache-2.0
"""Two replicas on two nodes behind one address: what clients see when one of them dies, and a third that joins them."""

from __future__ import annotations

import json
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.serving.asking import forward
from tests.e2e.serving.lab import RAY, SERVER, Profile, Serving
from tests.e2e.serving.load import Clients
from tests.e2e.serving.places import take_place
from tests.e2e.serving.processes import wait_for

RAY_SERVE = Profile("tests/e2e/serving/inventory/ray-serve", "spark0", ("spark0", "spark1"), "vllm-")
WORKER = RAY_SERVE.nodes[1]
NEW = "spark2"
REPLICA = "pgrep -f '^ray::ServeReplica:firstlight:LLMServer'"


def replicas_said(serving: Serving) -> list[str]:
    """What the program has said of its replicas, the last word last."""
    said = serving.inside(
        RAY_SERVE.head, f"journalctl -q -o cat -u {SERVER} | grep -o '[0-9] of [0-9] replicas answer' || true"
    )
    return said.splitlines()


def all_answer(serving: Serving, number: int = 2) -> None:
    words = f"{number} of {number} replicas answer"
    wait_for(lambda: replicas_said(serving)[-1:] == [words], 300, f"that {words}", serving.diagnosis)


def one_on_each(serving: Serving) -> None:
    for node in serving.profile.nodes:
        assert len(serving.inside(node, REPLICA).split()) == 1, node


def grown(serving: Serving, directory: Path) -> Profile:
    """The inventory as its owner changes it for a third node, and a replica on each."""
    inventory = directory / "grown"
    shutil.copytree(serving.checkout / RAY_SERVE.inventory, inventory)
    for name, change in (
        ("hosts.yml", {"cluster": {"children": {"workers": {"hosts": {NEW: {}}}}}}),
        ("group_vars/cluster.yml", {"firstlight_serving": {"replicas": 3}}),
    ):
        path = inventory / name
        path.write_text(yaml.safe_dump(merged(yaml.safe_load(path.read_text()), change)))
    return Profile(str(inventory), RAY_SERVE.head, (*RAY_SERVE.nodes, NEW), RAY_SERVE.fingerprint)


def merged(document: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    deep = {key: merged(document[key], value) for key, value in change.items() if isinstance(document.get(key), dict)}
    return {**document, **change, **deep}


@pytest.fixture
def replicas(rack: Serving) -> Serving:
    """Two nodes that serve with Ray Serve, a replica on each."""
    take_place(rack, RAY_SERVE)
    all_answer(rack)
    return rack


def test_ray_serve_answers_from_a_replica_on_each_node(replicas: Serving) -> None:
    one_on_each(replicas)
    run = replicas.playbook("site.yml")
    assert set(run.changed.values()) == {0}, run.output[-6000:]


def test_nobody_is_let_in_without_the_key(replicas: Serving) -> None:
    with forward(replicas.endpoint.ssh_config, RAY_SERVE.head, 290) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=30)


def test_a_replica_is_killed_under_load(replicas: Serving) -> None:
    """Ray Serve brings it back by itself; the supervisors have nothing to do, and nobody needs more than one retry."""
    began = replicas.before_a_fault()
    clients = Clients(replicas.endpoint)
    clients.start()
    clients.under_way()
    killed, told = time.monotonic(), len(replicas_said(replicas))
    replicas.inside(WORKER, f"kill -9 $({REPLICA})")
    load = clients.wait()
    all_answer(replicas)
    wait_for(lambda: len(replicas_said(replicas)) > told, 300, "that the loss was seen", replicas.diagnosis)
    all_answer(replicas)
    replicas.record("one of two replicas killed under load", killed, time.monotonic() - killed, load.summary)
    assert load.answered > 10, load
    assert load.failed_twice == 0, load
    assert replicas.engine_seconds(began, 0) is None, "the group was taken down for one replica"


def test_a_worker_node_is_lost_under_load_and_joins_again(replicas: Serving) -> None:
    """The other replica goes on; the node's own supervisor brings its Ray back, and Ray Serve the replica."""
    began = replicas.before_a_fault()
    clients = Clients(replicas.endpoint)
    clients.start()
    clients.under_way()
    killed, told = time.monotonic(), len(replicas_said(replicas))
    replicas.inside(WORKER, f"docker kill {RAY}")
    load = clients.wait()
    wait_for(lambda: len(replicas_said(replicas)) > told + 1, 300, "that it was lost and came back", replicas.diagnosis)
    all_answer(replicas)
    replicas.record("one of two worker nodes lost under load", killed, time.monotonic() - killed, load.summary)
    assert load.failed_twice == 0, load
    assert replicas.engine_seconds(began, 0) is None, "the group was taken down for one worker"


def test_a_node_joins_what_serves_and_leaves_it_again(replicas: Serving, tmp_path: Path) -> None:
    """A machine that nobody has prepared; the number of replicas is a setting of the program, which starts anew."""
    rack = replicas
    rack.profile = grown(rack, tmp_path)
    try:
        run = rack.playbook("playbooks/add_nodes.yml", "-e", f"nodes={NEW}", "-e", "restart_serving=true")
        assert f"{NEW}: new; " in run.output
        assert "Everything is as planned, and serves." in run.output
        all_answer(rack, 3)
        one_on_each(rack)
        rack.assert_serves()
        rack.records.note("a node joins two replicas, until a third answers", run.seconds)

        # The first run takes it off, and the others go on; the second is for them, with the inventory without it.
        rest = ("-e", json.dumps({"serving": {"replicas": 2}}))
        rack.playbook("playbooks/remove_node.yml", "-e", f"node={NEW}", *rest, "-e", "restart_serving=true")
        rack.assert_clean(NEW)
    finally:
        rack.profile = RAY_SERVE
    one_on_each(rack)
    rack.assert_serves()
    rack.playbook("playbooks/remove_node.yml", "-e", f"node={NEW}", "-e", "restart_serving=true")
    all_answer(rack)
    one_on_each(rack)
    rack.assert_serves()
