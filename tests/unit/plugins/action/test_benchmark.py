# SPDX-License-Identifier: Apache-2.0
"""The controller's part of a benchmark: points are measured as planned, written down, and gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.action.benchmark import ActionModule
from ansible_collections.firstlight.cluster.plugins.modules.benchmark import ARGUMENTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import WorkloadError

from tests.unit.plugins.plugin_utils.bench.test_results import figures

SERVER = {
    "inference_server_served_name": "tiny",
    "inference_server_image": "firstlight/engine:sha256-00",
    "inference_server_model_directory": "/models/tiny",
    "inference_server_runtime": "docker",
    "inference_server_listen": "0.0.0.0",
    "inference_server_port": 290,
    "inference_server_tensor_parallel": 2,
    "inference_server_pipeline_parallel": 1,
    "inference_server_replicas": 1,
    "inference_server_container": {"writable": ["/root"]},
}
ENDPOINT = {
    "endpoint_listen": "10.0.0.10",
    "endpoint_port": 443,
    "endpoint_names": [],
    "endpoint_rate": 600,
    "endpoint_keys": [{"name": "alice"}, {"name": "ci", "rate": 6000}],
    "endpoint_certificate": "",
}
CLUSTER: dict[str, Any] = {
    "head": "a",
    "hosts": ["a", "b"],
    "model": "tiny",
    "engine": "vllm",
    "engine_version": "0.32.0",
}
CLUSTER |= {"stack": "lab", "profile": "vllm-ray", "hardware": "gb10", "context": 4096, "kv_cache_dtype": "auto"}
SERVERS = [{"url": "u", "problem": "", "cache_queries": 0.0, "cache_hits": 0.0}]


class Action(ActionModule):
    """The action without Ansible around it; the module on the host is played."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self._task = SimpleNamespace(check_mode=False)  # type: ignore[assignment]
        self.asked: list[dict[str, Any]] = []
        self.answer = answer or {"measured": {**figures(), "stop": False}}

    def _execute_module(self, *_: Any, module_args: Any = None, **given: Any) -> dict[str, Any]:
        assert "module_name" not in given, "the module of its own name"
        self.asked.append(module_args)
        return json.loads(json.dumps(self.answer))  # type: ignore[no-any-return]

    def do(self, action: str, variables: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        defaults = {name: field.get("default") for name, field in ARGUMENTS.items()}
        found: dict[str, Any] = getattr(self, f"_{action}")({**defaults, **arguments}, variables)
        return found


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    keys = tmp_path / "state/firstlight/mine/keys"
    keys.mkdir(parents=True)
    for name in ("alice", "ci"):
        (keys / name).write_text(f"key-of-{name}\n")
    (keys.parent / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    roles = {"inference_server": SERVER, "endpoint": ENDPOINT, "inference_image": None, "nvidia_driver": None}
    launched = [{"name": "server", "engine_argv": ["vllm", "serve", "/models/tiny"]}]
    plan = {"cluster": CLUSTER, "roles": roles, "host": {"launch": launched}, "desired": {}}
    hostvars: dict[str, Any] = {
        name: {"firstlight_plan": plan, "bench_reached": {"problem": ""}} for name in CLUSTER["hosts"]
    }
    hostvars["a"]["bench_cleaned"] = {"driver": "580.173.02"}
    own = {"inventory_hostname": "a", "ansible_inventory_sources": [str(tmp_path / "mine/hosts.yml")]}
    return {**own, "hostvars": hostvars, "firstlight_plan": plan}


def begin(action: Action, variables: dict[str, Any], **more: Any) -> dict[str, Any]:
    url = action.do("prepare", variables)["url"]
    asked = {"workloads": ["chat"], "streams": [2], "repeats": 2, "benchmark": {"url": url}, **more}
    found: dict[str, Any] = action.do("begin", variables, **asked)["benchmark"]
    return found


def point(action: Action, variables: dict[str, Any], benchmark: dict[str, Any], index: int) -> dict[str, Any]:
    measured = action.do("measure", variables, benchmark=benchmark, index=index)["measured"]
    given = {"benchmark": benchmark, "index": index, "measured": measured, "before": SERVERS, "after": SERVERS}
    return action.do("record", variables, **given)


def test_a_benchmark_from_its_beginning_to_its_end(variables: dict[str, Any], tmp_path: Path) -> None:
    action = Action()
    benchmark = begin(action, variables)
    assert benchmark["client"]["host"] == "b"
    path = Path(benchmark["path"])
    assert path.parent == tmp_path / "state/firstlight/mine/bench"
    assert path.stat().st_mode & 0o077 == 0
    for index in range(2):
        assert point(action, variables, benchmark, index)["stop"] is False
    done = action.do("finish", variables, benchmark=benchmark, document=str(tmp_path / "copy.json"))
    assert done["complete"]
    document = json.loads(path.read_text())
    assert document["finished"]
    assert document == json.loads((tmp_path / "copy.json").read_text())
    assert document["workloads"][0]["points"][0]["summary"]["runs"] == 2
    assert document["configuration"]["max_model_len"] == 4096
    assert document["configuration"]["driver"] == "580.173.02"


@pytest.mark.hostile
def test_the_key_goes_to_the_host_and_nowhere_else(variables: dict[str, Any]) -> None:
    action = Action()
    benchmark = begin(action, variables)
    result = point(action, variables, benchmark, 0)
    (asked,) = action.asked
    assert asked["api_key"] == "key-of-ci", "the one that may ask most often"
    assert asked["authority"].startswith("-----BEGIN")
    assert "key-of-ci" not in json.dumps([benchmark, result, Path(benchmark["path"]).read_text(), asked["argv"]])


def test_the_servers_own_key_stays_on_the_head(variables: dict[str, Any]) -> None:
    action = Action()
    benchmark = begin(action, variables, through="server")
    point(action, variables, benchmark, 0)
    assert benchmark["client"]["host"] == "a"
    assert action.asked[0]["key_path"] == "/etc/firstlight/server.env"
    assert "api_key" not in action.asked[0]
    assert "--base-url=http://127.0.0.1:290" in action.asked[0]["argv"]


def test_an_interrupted_benchmark_goes_on_with_new_seeds(variables: dict[str, Any]) -> None:
    action = Action()
    first = begin(action, variables)
    point(action, variables, first, 0)
    again = begin(action, variables)
    assert (again["run"], again["resumed"], len(again["points"])) == (first["run"], True, 1)
    point(action, variables, again, 0)
    assert len({asked["run"] for asked in action.asked}) == 2, (
        "a killed client must not clear away its successor's files"
    )
    assert len({next(word for word in asked["argv"] if "--seed" in word) for asked in action.asked}) == 2
    assert begin(action, variables, resume="never")["run"] != first["run"]
    assert begin(action, variables, streams=[4])["run"] != first["run"]


def test_a_finished_benchmark_is_not_gone_on_with(variables: dict[str, Any]) -> None:
    action = Action()
    first = begin(action, variables, repeats=1)
    point(action, variables, first, 0)
    action.do("finish", variables, benchmark=first)
    assert begin(action, variables, repeats=1)["run"] != first["run"]
    with pytest.raises(WorkloadError, match="no unfinished benchmark"):
        begin(action, variables, streams=[8], resume="always")


def test_what_is_not_there_is_not_measured(variables: dict[str, Any]) -> None:
    for asked, words in (
        ({"workloads": ["chatt"]}, "did you mean chat"),
        ({"in_service": "somebody"}, "expected the name of the cluster or of its model, mine or tiny"),
    ):
        with pytest.raises(WorkloadError, match=words):
            begin(Action(), variables, **asked)


def test_a_run_that_does_not_count_is_kept_with_the_reason(variables: dict[str, Any]) -> None:
    action = Action({"measured": {**figures(), "client_load": 0.95, "stop": False}})
    benchmark = begin(action, variables)
    point(action, variables, benchmark, 0)
    (first, *_) = json.loads(Path(benchmark["path"]).read_text(encoding="utf-8"))["workloads"][0]["points"]
    assert first["runs"][0]["problem"].startswith("client was the bottleneck")
    assert first["summary"] is None


def test_a_server_that_died_is_named(variables: dict[str, Any]) -> None:
    failed = {"requests": 10, "completed": 0, "failed": 10, "failures": {"HTTP 502": 10}}
    action = Action({"measured": {**figures(), **failed, "stop": False}})
    benchmark = begin(action, variables)
    measured = action.do("measure", variables, benchmark=benchmark, index=0)["measured"]
    gone = [{"url": "http://127.0.0.1:290", "problem": "Connection refused"}]
    given = {"benchmark": benchmark, "index": 0, "measured": measured, "before": SERVERS, "after": gone}
    found = action.do("record", variables, **given)
    assert found["stop"] is True
    assert "HTTP 502: 10" in found["problem"]
    assert "the server died or hangs: http://127.0.0.1:290 gives no answer" in found["problem"]


def test_check_mode_writes_nothing(variables: dict[str, Any], tmp_path: Path) -> None:
    action = Action()
    action._task.check_mode = True
    assert begin(action, variables)["points"]
    assert not (tmp_path / "state/firstlight/mine/bench").exists()
