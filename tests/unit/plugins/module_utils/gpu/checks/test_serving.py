# SPDX-License-Identifier: Apache-2.0
"""Checks of Ray and of the server: what is right, what is wrong, and what the text does not tell."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.serving import check_serving
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.kinds import read
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import Reading

GB10 = Expected("gb10", 1, "NVIDIA GB10", unified=True)
H100 = Expected("h100-sxm-8", 8, "NVIDIA H100 80GB HBM3")


def ray(nodes: int = 4, gpus: float = 4, pending: str = "", failures: str = "", demands: str = "") -> str:
    active = "".join(f" 1 node_{number:056d}\n" for number in range(nodes)) or " (no active nodes)\n"
    return (
        "======== Autoscaler status: 2026-11-15 09:25:37.694016 ========\nNode status\n-----\n"
        f"Active:\n{active}Pending:\n {pending or '(no pending nodes)'}\n"
        f"Recent failures:\n {failures or '(no failures)'}\n"
        f"\nResources\n-----\nTotal Usage:\n 0.0/80.0 CPU\n 0.0/{gpus:.1f} GPU\n 0B/27.94GiB object_store_memory\n\n"
        f"From request_resources:\n (none)\nPending Demands:\n {demands or '(no resource demands)'}\n"
    )


def checked(text: str, expected: Expected = GB10) -> dict[str, dict[str, Any]]:
    return {check["id"]: check for check in check_serving([read("ray-status", text)], expected)}


def told(text: str, expected: Expected = GB10) -> dict[str, str]:
    return {name: check["verdict"] for name, check in checked(text, expected).items()}


def test_a_cluster_that_is_right() -> None:
    assert set(told(ray()).values()) == {"pass"}
    assert set(told(ray(2, 16), H100).values()) == {"pass"}


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"gpus": 2}, "ray.gpus"),
        ({"gpus": 0}, "ray.gpus"),
        ({"gpus": 5}, "ray.gpus"),
        ({"nodes": 0, "gpus": 0}, "ray.nodes"),
        ({"pending": "192.168.100.12: ray.worker, setting-up"}, "ray.pending"),
        ({"failures": "192.168.100.13: ray.worker"}, "ray.failures"),
        ({"demands": "{'GPU': 1.0} * 4 (PACK): 1+ pending placement groups"}, "ray.demands"),
    ],
)
def test_what_is_wrong(change: dict[str, Any], check: str) -> None:
    found = checked(ray(**change))[check]
    assert found["verdict"] == "fail"
    assert found["remedy"]


def test_one_node_without_gpus_may_be_the_head() -> None:
    assert told(ray(3, 2))["ray.gpus"] == "could_not_check"


def test_a_status_without_gpus() -> None:
    assert told(ray().replace(" 0.0/4.0 GPU\n", ""))["ray.gpus"] == "fail"


def test_no_cut_makes_a_wrong_cluster_right() -> None:
    lines = ray(4, 2, failures="192.168.100.13: ray.worker").splitlines(keepends=True)
    for end in range(len(lines)):
        found = told("".join(lines[:end]))
        assert found.get("ray.gpus") != "pass"
        assert found.get("ray.failures") != "pass"


@pytest.mark.parametrize("text", ["", "hello\n", "No cluster status. It may take a few seconds.\n"])
def test_what_cannot_be_read(text: str) -> None:
    assert told(text) == {"ray.nodes": "could_not_check"}


def test_a_cluster_that_does_not_answer_fails() -> None:
    assert told("ConnectionError: Could not find any running Ray instance.\n") == {"ray.nodes": "fail"}


METRICS: dict[str, Any] = {
    "models": ["m"],
    "running": 3,
    "waiting": 0,
    "kv_cache_usage": 0.4,
    "preemptions": 0,
    "finished": {"stop": 990, "length": 10},
}


def metrics(**change: Any) -> dict[str, str]:
    data = {key: value for key, value in {**METRICS, **change}.items() if value is not None}
    return {check["id"]: check["verdict"] for check in check_serving([Reading("vllm-metrics", data)], GB10)}


def test_a_server_that_is_right() -> None:
    assert set(metrics().values()) == {"pass"}
    assert metrics(waiting=3, preemptions=9)["vllm.queue"] == "pass"


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"waiting": 40}, "vllm.queue"),
        ({"running": 0, "waiting": 1}, "vllm.queue"),
        ({"kv_cache_usage": 0.97}, "vllm.kv_cache"),
        ({"preemptions": 30}, "vllm.preemptions"),
        ({"finished": {"stop": 9, "error": 1}}, "vllm.finished"),
        ({"corrupted": 1}, "vllm.corrupted"),
    ],
)
def test_what_is_wrong_with_a_server(change: dict[str, Any], check: str) -> None:
    assert metrics(**change)[check] == "fail"


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"waiting": None}, "vllm.queue"),
        ({"kv_cache_usage": None}, "vllm.kv_cache"),
        ({"kv_cache_usage": 37.0}, "vllm.kv_cache"),
        ({"preemptions": None}, "vllm.preemptions"),
        ({"finished": None}, "vllm.finished"),
        ({"finished": {"abort": 3}}, "vllm.finished"),
    ],
)
def test_what_the_page_does_not_tell(change: dict[str, Any], check: str) -> None:
    assert metrics(**change)[check] == "could_not_check"


def test_no_server_fails() -> None:
    reading = read("vllm-metrics", "curl: (7) Failed to connect to 127.0.0.1 port 8000\n")
    assert [(check["id"], check["verdict"]) for check in check_serving([reading], GB10)] == [("vllm.answer", "fail")]


def test_another_page_is_quoted() -> None:
    (check,) = check_serving([read("vllm-metrics", '{"error":"Unauthorized"}\n')], GB10)
    assert check["verdict"] == "could_not_check"
    assert "Unauthorized" in check["observed"]
