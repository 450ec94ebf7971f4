# SPDX-License-Identifier: Apache-2.0
"""Captures in, verdicts out: hosts kept apart, nothing passed over, no fault of ours that hides the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu import diagnose as subject
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.diagnose import (
    Capture,
    diagnose,
    diagnose_groups,
    evaluate,
    status,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected, expected_of
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import Reading

GB10 = Expected("gb10", 1, "NVIDIA GB10", unified=True)
RIGHT = (
    "======== Autoscaler status: 2026-11-15 ========\nActive:\n 2 node_a\nRecent failures:\n (no failures)\nUsage:\n"
)
RAY = Capture("ray.txt", "", RIGHT + " 0.0/2.0 GPU\n")


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {check["id"]: check["verdict"] for check in document["checks"]}


def test_the_document_is_for_programs() -> None:
    document = diagnose([RAY], GB10)
    assert document["hardware"] == "gb10"
    assert document["parsed"]["ray.txt"]["ray-status"]["nodes"] == 2
    assert verdicts(document)["ray.gpus"] == "pass"
    assert document["verdicts"]["pass"] == sum(1 for check in document["checks"] if check["verdict"] == "pass")
    assert json.loads(json.dumps(document)) == document
    assert {"id", "verdict", "expected", "observed", "remedy", "source", "host"} <= document["checks"][0].keys()


def test_a_text_of_no_kind_is_quoted() -> None:
    (check,) = diagnose([Capture("notes.txt", "", "# source: x\nhello there\n")], GB10)["checks"]
    assert (check["id"], check["verdict"], check["observed"]) == ("kind", "could_not_check", '"hello there"')


@pytest.mark.parametrize("kind", ["topo", "nvlink", "smi-table", "ethtool", "ray-status", "vllm-metrics", "kernel-log"])
@pytest.mark.parametrize("text", ["", "hello\n"])
def test_what_cannot_be_read_never_passes(kind: str, text: str) -> None:
    document = diagnose([Capture("x", "", text, kind)], Expected("h100-sxm-8", 8, "NVIDIA H100 80GB HBM3"))
    assert document["checks"]
    assert document["verdicts"]["pass"] == 0


def test_hosts_are_evaluated_apart() -> None:
    document = diagnose([RAY._replace(host="a"), RAY._replace(host="b", text=RIGHT + " 0.0/0.0 GPU\n")], GB10)
    told = {(check["host"], check["verdict"]) for check in document["checks"] if check["id"] == "ray.gpus"}
    assert told == {("a", "pass"), ("b", "fail")}


def test_what_names_no_host_is_of_the_only_one_that_is_named() -> None:
    session = Capture("session.txt", "", "root@node1:~# ray status\n" + RAY.text)
    assert {check["host"] for check in diagnose([session, RAY], GB10)["checks"]} == {"node1"}


def test_the_same_tool_twice_in_one_file_is_two_readings() -> None:
    text = f"$ ray status\n{RAY.text}$ rdma link\nlink a/1 state ACTIVE netdev a\n$ ray status\n{RAY.text}"
    assert list(diagnose([Capture("x", "", text)], GB10)["parsed"]) == ["x", "x (ray-status 2)"]


def test_a_check_that_stumbles_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: Any) -> Any:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(subject, "SUBJECTS", (("kernel", stumble), *subject.SUBJECTS))
    told = verdicts(diagnose([RAY], GB10))
    assert told["kernel.check"] == "could_not_check"
    assert told["ray.gpus"] == "pass"


def test_a_reading_that_nobody_evaluates_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "SUBJECTS", ())
    (check,) = evaluate([Reading("topo", {}, ("no matrix",), "t.txt")], GB10)
    assert (check["id"], check["verdict"], check["observed"]) == ("topo.read", "could_not_check", "no matrix")


def test_groups_by_profile_make_one_document() -> None:
    h200 = Expected("h200-sxm-1", 1, "NVIDIA H200")
    document = diagnose_groups([([RAY._replace(host="a")], GB10), ([RAY._replace(source="b", host="b")], h200)])
    assert document["hardware"] == "gb10, h200-sxm-1"
    assert list(document["parsed"]) == ["ray.txt", "b"]


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ([], 3),
        (["could_not_check", "not_applicable"], 3),
        (["pass", "could_not_check"], 3),
        (["pass", "not_applicable"], 0),
        (["pass", "fail", "could_not_check"], 1),
        (["fail"], 1),
    ],
)
def test_the_status(told: list[str], code: int) -> None:
    assert status([{"host": "", "id": str(number), "verdict": verdict} for number, verdict in enumerate(told)]) == code


def test_what_another_source_proves_is_not_left_open() -> None:
    told = [{"host": "a", "id": "gpu.count", "verdict": verdict} for verdict in ("could_not_check", "pass")]
    assert status(told) == 0
    assert status([{**told[0], "host": "b"}, told[1]]) == 3


def test_cards_that_servers_hold_any_number_of_are_counted_by_what_is_shown() -> None:
    hardware = {"gpus": 2, "gpus_vary": True, "gpu_name": "NVIDIA H100 PCIe", "pair": "PIX|NODE", "links_per_gpu": 0}
    rows = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tNODE\nGPU1\tPIX\t X \tNODE\nGPU2\tNODE\tNODE\t X \n"
    verdicts = {
        vary: {
            one["id"]: one["verdict"]
            for one in diagnose([("a", "", rows, "topo")], expected_of("cards", {**hardware, "gpus_vary": vary}))[
                "checks"
            ]
        }
        for vary in (True, False)
    }
    assert (verdicts[True]["gpu.count"], verdicts[True]["topo.pairs"]) == ("pass", "pass")
    assert verdicts[False]["gpu.count"] == "fail"
