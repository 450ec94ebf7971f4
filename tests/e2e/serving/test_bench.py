# SPDX-License-Identifier: Apache-2.0
"""`firstlight bench` on nodes that serve: through the endpoint, on replicas, killed, and with a server that fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.balancer import CONFIGURATION_PATH

from tests.e2e.serving.lab import HEAD, NODES, REPLICAS, SERVER, SUPERVISOR, Profile, Run, Serving
from tests.e2e.serving.places import take_place
from tests.e2e.serving.processes import kill_all_of, wait_for

BENCH = Profile("tests/e2e/serving/inventory/bench", HEAD, NODES, "-tp4")
CLIENT = NODES[3]
NAME = "bench"
BALANCER = "firstlight-balancer.service"
SHORT: dict[str, Any] = {
    "name": "short",
    "source": "this test",
    "date": "2026-11-18",
    "prompts": "random",
    "input": 16,
    "output": 4,
    "streams": [2],
    "requests_per_stream": 3,
    "warmups": 2,
    "repeats": 2,
    "targets": {"ttft_ms": 60_000},
    "limit_s": 600,
    "stall_s": 90,
}
LONG = {**SHORT, "name": "long", "requests_per_stream": 5000, "repeats": 1, "stall_s": 40}


@pytest.fixture
def bench(rack: Serving) -> Serving:
    """Four nodes that serve behind an endpoint."""
    take_place(rack, BENCH)
    return rack


def words(serving: Serving, directory: Path, *more: str) -> list[str]:
    """The command, with a site's catalog that has the workloads of these tests."""
    (directory / "workloads.yml").write_text(yaml.safe_dump([SHORT, LONG]))
    catalogs = {"firstlight_catalog": [str(directory), str(serving.lab.directory / "catalog")]}
    place = ["-i", serving.profile.inventory, "-e", json.dumps(catalogs), "-o", str(directory / "figures.json")]
    return ["firstlight", "bench", *place, *more]


def measured(serving: Serving, directory: Path, *more: str) -> Run:
    """The command, to its end. A lab's processors are slower than the GPUs that its nodes play, and are told so."""
    run = serving.command(*words(serving, directory, *more), fails=True)
    assert "Look at first" in run.output, run.output[-3000:]
    return run


def figures(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "figures.json").read_text())
    return found


def journal(serving: Serving) -> list[dict[str, Any]]:
    place = Path(serving.env["XDG_STATE_HOME"]) / "firstlight" / NAME / "bench"
    return [json.loads(path.read_text()) for path in sorted(place.glob("*.json"))]


def left(serving: Serving) -> str:
    """What of a benchmark is on the nodes."""
    look = "docker ps -aq --filter label=firstlight.bench; ls -A /run/firstlight/bench 2>/dev/null || true"
    return "".join(serving.inside(node, look) for node in serving.profile.nodes)


def measures(serving: Serving, node: str = CLIENT) -> bool:
    """Whether the client is past its warm-up."""
    seen = "grep -ls 'Starting main benchmark run' /run/firstlight/bench/*/out/client.log 2>/dev/null || true"
    return serving.inside(node, seen) != ""


@contextmanager
def in_use(serving: Serving) -> Iterator[None]:
    """Somebody asks all the time."""
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            try:
                serving.endpoint.complete(30)
            except (openai.OpenAIError, OSError):
                ended.wait(1)

    askers = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
    for asker in askers:
        asker.start()
    try:
        yield
    finally:
        ended.set()
        for asker in askers:
            asker.join(60)


def test_four_nodes_are_measured_from_another_host_than_the_head(bench: Serving, tmp_path: Path) -> None:
    run = measured(bench, tmp_path, "--workload", "short")
    assert "10 of 200 Gb/s" in run.output
    found = figures(tmp_path)
    assert found["client"] == {"host": CLIENT, "through": "endpoint", "on_head": False}
    assert found["finished"]
    assert found["configuration"]["tensor_parallel"] == 4
    assert "@sha256:" in found["configuration"]["image"]
    (point,) = found["workloads"][0]["points"]
    assert [(one["completed"], one["failed"], one["problem"]) for one in point["runs"]] == [(6, 0, None)] * 2
    assert len({one["seed"] for one in point["runs"]}) == 2
    assert point["summary"]["output_tokens_per_s"] > 0
    assert point["summary"]["ttft_ms"]["99"] >= point["summary"]["ttft_ms"]["50"] > 0
    assert point["summary"]["goodput_requests_per_s"] > 0
    assert all(0 <= one["prefix_hit_rate"] <= 1 for one in point["runs"])
    key = (Path(bench.env["XDG_STATE_HOME"]) / "firstlight" / NAME / "keys/ci").read_text().strip()
    assert key not in run.output + json.dumps(found)
    assert left(bench) == ""


def test_a_server_in_use_is_measured_only_by_name(bench: Serving, tmp_path: Path) -> None:
    with in_use(bench):
        refused = bench.command(*words(bench, tmp_path, "--workload", "short"), fails=True)
        assert "requests of others" in " ".join(refused.output.split())
        measured(bench, tmp_path, "--workload", "short", "--repeats", "1", "--in-service", NAME, "--new")
    assert figures(tmp_path)["workloads"][0]["points"][0]["runs"][0]["completed"] == 6


def test_a_killed_benchmark_goes_on(bench: Serving, tmp_path: Path) -> None:
    asked = words(bench, tmp_path, "--workload", "short", "--repeats", "3")
    with bench.started(*asked, "--new", log=tmp_path / "log") as process:
        wait_for(
            lambda: (
                any(point["runs"] for one in journal(bench)[-1:] for point in one["workloads"][0]["points"])
                and journal(bench)[-1]["finished"] is None
            ),
            400,
            "the first figures",
            (tmp_path / "log").read_text,
        )
        cut = journal(bench)[-1]
        kill_all_of(process)
    measured(bench, tmp_path, "--workload", "short", "--repeats", "3", "--resume")
    found = figures(tmp_path)
    assert found["run"] == cut["run"]
    (point,) = found["workloads"][0]["points"]
    assert point["runs"][0] == cut["workloads"][0]["points"][0]["runs"][0]
    assert point["summary"]["runs"] == 3
    assert left(bench) == ""


@pytest.mark.parametrize(
    ("fault", "fixed", "said"),
    [
        (f"docker kill --signal=STOP {SERVER}", f"docker kill --signal=CONT {SERVER} || true", ("stalled", "died")),
        (
            f"systemctl stop {SUPERVISOR} {SERVER}",
            f"systemctl start {SUPERVISOR}",
            ("HTTP 502", "disconnected", "died"),
        ),
    ],
    ids=["it stalls", "it dies"],
)
def test_a_server_that_fails_in_the_middle(
    bench: Serving, tmp_path: Path, fault: str, fixed: str, said: tuple[str, ...]
) -> None:
    asked = words(bench, tmp_path, "--workload", "long", "--new")
    log = tmp_path / "log"
    try:
        with bench.started(*asked, log=log) as process:
            wait_for(lambda: measures(bench), 400, "the first request", log.read_text)
            bench.inside(HEAD, fault)
            assert process.wait(timeout=400) == 1, log.read_text()[-3000:]
    finally:
        bench.inside(HEAD, fixed)
    told = " ".join(log.read_text().split())
    assert "could not be measured any further" in told
    assert any(word in told for word in said), told[-3000:]
    assert left(bench) == ""
    (run,) = figures(tmp_path)["workloads"][0]["points"][0]["runs"]
    assert run["problem"]


def test_a_server_that_answers_errors_in_the_middle(rack: Serving, tmp_path: Path) -> None:
    # Without TLS: when such connections were closed, aiohttp of Python 3.11 fails before the client writes figures.
    take_place(rack, REPLICAS)
    log = tmp_path / "log"
    reload = f"systemctl kill --signal=HUP --kill-who=main {BALANCER}"
    try:
        with rack.started(*words(rack, tmp_path, "--workload", "long", "--new"), log=log) as process:
            wait_for(lambda: measures(rack, REPLICAS.head), 400, "the first request", log.read_text)
            rack.inside(REPLICAS.head, f"sed -i 's/proxy_pass http/return 503; #&/' {CONFIGURATION_PATH}; {reload}")
            assert process.wait(timeout=400) == 3, log.read_text()[-3000:]
    finally:
        rack.inside(REPLICAS.head, f"sed -i 's/return 503; #//' {CONFIGURATION_PATH}; {reload}")
    told = " ".join(log.read_text().split())
    assert "HTTP 503" in told, told[-3000:]
    assert left(rack) == ""
    (run,) = figures(tmp_path)["workloads"][0]["points"][0]["runs"]
    assert run["failures"]["HTTP 503"] == run["failed"] > 0
    assert run["problem"]


def test_a_workload_that_gates_fails_the_run_that_measures_it(bench: Serving, tmp_path: Path) -> None:
    asked = words(bench, tmp_path)
    chosen = {
        "firstlight_bench": {"workloads": ["short"], "gate": ["short"], "repeats": 1},
        "firstlight_bench_now": True,
    }
    run = bench.playbook(
        "site.yml", *asked[asked.index("-e") : asked.index("-o")], "-e", json.dumps(chosen), fails=True
    )
    told = " ".join(run.output.split())
    failed = "FAILED spark0: Fail if a gating workload does not pass"
    assert failed in told
    assert "short, " in told.split(failed)[1], told[-3000:]
    assert set(run.changed.values()) == {0}
    assert left(bench) == ""


def test_replicas_are_measured_on_their_host(rack: Serving, tmp_path: Path) -> None:
    take_place(rack, REPLICAS)
    measured(rack, tmp_path, "--workload", "short", "--repeats", "1")
    found = figures(tmp_path)
    assert found["client"] == {"host": REPLICAS.head, "through": "server", "on_head": True}
    assert found["configuration"]["replicas"] == 2
    run = found["workloads"][0]["points"][0]["runs"][0]
    assert (run["completed"], run["problem"]) == (6, None)
    assert run["prefix_hit_rate"] is not None
    assert left(rack) == ""
