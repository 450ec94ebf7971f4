# SPDX-License-Identifier: Apache-2.0
"""A support bundle holds what hosts handed in, and nothing outside its own directory."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.gpu_probe import KINDS as ASKED
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import KINDS
from ansible_collections.firstlight.cluster.plugins.module_utils.redact import redact_text
from ansible_collections.firstlight.cluster.plugins.plugin_utils import support_bundle
from ansible_collections.firstlight.cluster.plugins.plugin_utils.support_bundle import (
    SupportBundleError,
    check_directory,
    host_part,
    labels,
    report,
    request,
    safe_name,
    write,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hostile import ESCAPES, documents

TOPO = {"kind": "topo", "command": "nvidia-smi topo -m", "rc": 0, "seconds": 0.2, "text": "\tGPU0\n", "problem": ""}
PLAN: dict[str, Any] = {
    "cluster": {"hardware": "gb10"},
    "host": {"is_head": True, "fabric": [{"port": "enp1s0f1np1", "address": "192.168.100.10/24"}]},
    "roles": {
        "gpu_verify": {"gpu_verify_driver": "590.48.01"},
        "ray_cluster": {"ray_cluster_port": 6379},
        "inference_server": {"inference_server_port": 8000},
    },
}


def collected(answer: dict[str, Any] | None) -> dict[str, Any]:
    return host_part("spark0", {"hardware": "gb10", "driver": None}, answer).about


def test_everything_that_can_be_read_is_asked_for_where_there_is_a_plan() -> None:
    asked = request("spark0", PLAN, None)
    # A diagnostic is run on purpose, never by looking.
    assert asked["kinds"] == [kind for kind in KINDS if kind != "dcgm-diag"]
    assert (asked["hardware"], asked["driver"]) == ("gb10", "590.48.01")
    assert (asked["ports"], asked["metrics_port"]) == (["enp1s0f1np1"], 8000)
    assert set(KINDS) - {"dcgm-diag"} == set(ASKED)


def test_a_worker_has_no_server_and_a_host_without_a_plan_nothing_that_serves() -> None:
    worker = {**PLAN, "host": {**PLAN["host"], "is_head": False}}
    assert "vllm-metrics" not in request("spark1", worker, None)["kinds"]
    bare = request("spark1", None, "h200-sxm-1")
    assert bare["hardware"] == "h200-sxm-1"
    assert not {"ray-status", "vllm-metrics"} & set(bare["kinds"])
    assert {"topo", "kernel-log", "smi-q"} <= set(bare["kinds"])


def test_a_file_has_the_command_before_it_and_the_status_after_it() -> None:
    part = host_part("spark0", {}, {"raw": {"topo": TOPO}})
    assert part.files == {"topo.txt": "$ nvidia-smi topo -m\n\tGPU0\nrc=0\n"}
    assert part.about["files"] == {
        "topo.txt": {"kind": "topo", "command": "nvidia-smi topo -m", "rc": 0, "seconds": 0.2}
    }


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (
            {"command": "nvidia-smi -L", "rc": 124, "problem": "nvidia-smi gave no answer within 30 s"},
            "no answer within",
        ),
        (
            {"command": "nvidia-smi", "rc": 127, "problem": "not installed", "text": "nvidia-smi: command not found\n"},
            "command not found",
        ),
        ({"command": "nvidia-smi -q", "rc": 9, "text": "NVIDIA-SMI has failed"}, "has failed"),
    ],
)
def test_that_a_gpu_does_not_answer_is_kept_as_a_finding(one: dict[str, Any], said: str) -> None:
    (text,) = host_part("spark0", {}, {"raw": {"smi-list": one}}).files.values()
    assert said in text
    assert text.endswith(f"rc={one['rc']}\n")


def test_a_tool_that_is_not_there_or_said_nothing_makes_no_file() -> None:
    about = collected(
        {
            "raw": {
                "ibstat": {"command": "ibstat", "rc": 127, "text": "ibstat: command not found", "problem": "no ibstat"},
                "fabricmanager-log": {"command": "cat /x", "rc": 1, "text": "", "problem": "/x is not there"},
                "fabricmanager-journal": {"command": "journalctl", "rc": 0, "text": "\n", "problem": ""},
            }
        }
    )
    assert about["files"] == {}
    assert about["without"] == {
        "ibstat": "no ibstat",
        "fabricmanager-log": "/x is not there",
        "fabricmanager-journal": "it printed nothing and returned 0",
    }


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"unreachable": True, "msg": "Connection\n timed out"}, "the host does not answer: Connection timed out"),
        ({"unreachable": True}, "the host does not answer"),
        ({"msg": "kinds cannot be used"}, "kinds cannot be used"),
        ({}, "it was not queried"),
        (None, "it was not queried"),
        ({"raw": "nonsense"}, "it was not queried"),
    ],
)
def test_a_host_that_handed_in_nothing_is_told_of(answer: dict[str, Any] | None, why: str) -> None:
    assert collected(answer) == {"hardware": "gb10", "driver": None, "error": why, "files": {}}


def test_what_ansible_says_of_a_host_names_nobody_who_is_not_to_be_known() -> None:
    options = {"key": "k", "anonymous": True, "names": {"spark1": "host2", "spark1.corp.example": "host2"}}
    said = (
        "ssh: connect to host spark1.corp.example (10.1.2.3) port 22: alice@spark1: Permission denied, password=hunter2"
    )
    part = host_part("host2", {}, {"unreachable": True, "msg": said}, lambda text: redact_text(text, options))
    assert part.about["error"].startswith("the host does not answer: ssh: connect to host host2 (240.")
    assert not any(word in str(part.about) for word in ("spark1", "corp", "10.1.2.3", "alice", "hunter2"))


@pytest.mark.parametrize("raw", [{"topo": None}, {"topo": "text"}, {"topo": {"text": 5, "rc": "x", "seconds": True}}])
def test_nonsense_of_a_host_is_no_crash(raw: dict[str, Any]) -> None:
    assert "files" in collected({"raw": raw})


@pytest.mark.hostile
def test_a_file_can_be_shown_on_a_terminal() -> None:
    one = {**TOPO, "command": f"nvidia-smi {ESCAPES}", "text": f"\tGPU0{ESCAPES}\r\nGPU0\tX\n", "problem": ESCAPES}
    part = host_part("spark0", {}, {"raw": {"topo": one, ESCAPES: one, "empty": {**one, "text": ""}}})
    shown = "".join([*part.files, *part.files.values(), json.dumps(part.about, ensure_ascii=False)])
    assert not set(shown) & set(map(chr, [*range(9), *range(11, 32), *range(127, 160)]))
    assert "\tGPU0" in part.files["topo.txt"]
    assert "\nGPU0\tX\n" in part.files["topo.txt"]
    assert "\x1b" not in host_part("spark0", {}, {"msg": ESCAPES}).about["error"]


@pytest.mark.hostile
def test_a_host_cannot_fill_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support_bundle, "LARGEST", 8_000)
    monkeypatch.setattr(support_bundle, "_ALL_OF_A_HOST", 64_000)
    long = {**TOPO, "text": "x" * 9_000, "command": "y" * 9_000, "problem": "z" * 9_000}
    part = host_part("spark0", {}, {"raw": {f"topo-{number}": long for number in range(300)}})
    assert sum(map(len, part.files.values())) < 64_000 + 11_000
    assert len(json.dumps(part.about)) < 50_000
    assert len(part.about["without"]) + len(part.about["files"]) == 200
    assert part.about["without"]["topo-199"] == "the host has already returned too much"


@pytest.mark.hostile
@given(documents(("raw", "topo", "../../escape", "text", "rc", "command", "kind", "problem", "seconds", "msg")))
def test_whatever_a_host_hands_in_lies_in_its_directory(answer: Any) -> None:
    part = host_part("spark0", {}, answer if isinstance(answer, dict) else {"raw": {"topo": answer}})
    assert all("/" not in file and file.endswith(".txt") for file in part.files)
    assert json.dumps(part.about)


@given(st.text(max_size=200))
def test_no_name_leaves_its_directory(name: str) -> None:
    safe = safe_name(name)
    assert safe
    assert "/" not in safe
    assert not safe.startswith((".", "-"))
    assert len(safe) <= 100


def test_hosts_keep_their_names_unless_they_are_to_be_unknown() -> None:
    assert labels(["spark0", "a/b", "a_b"]) == {"spark0": "spark0", "a/b": "a_b", "a_b": "a_b-3"}
    assert labels(["a_b-3", "a/b", "a_b"]) == {"a_b-3": "a_b-3", "a/b": "a_b", "a_b": "a_b-4"}
    assert labels(["manifest.json"]) == {"manifest.json": "manifest.json-1"}
    assert labels(["spark0", "spark1"], anonymous=True) == {"spark0": "host1", "spark1": "host2"}


def test_it_is_written_for_nobody_else(tmp_path: Path) -> None:
    directory = tmp_path / "collection"
    parts = [
        host_part("spark0", {"hardware": "gb10"}, {"raw": {"topo": TOPO, "../../escape": TOPO}}),
        host_part("spark1", {"hardware": "gb10"}, {"unreachable": True, "msg": "no route"}),
    ]
    write(str(directory), parts, "2026-11-15T12:00:00+00:00")
    written = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert written == {
        "collection": 0o700,
        "collection/manifest.json": 0o600,
        "collection/spark0": 0o700,
        "collection/spark0/topo.txt": 0o600,
        "collection/spark0/_.._escape.txt": 0o600,
    }
    manifest = json.loads((directory / "manifest.json").read_text())
    assert manifest["firstlight"] == 1
    assert list(manifest["hosts"]) == ["spark0", "spark1"]
    assert manifest["hosts"]["spark1"]["error"] == "the host does not answer: no route"
    assert report("DIR", parts) == [
        "spark1: the host does not answer: no route",
        "2 outputs of 1 of 2 hosts are in DIR",
        "evaluate them: firstlight diagnose DIR",
    ]


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    check_directory(str(tmp_path))
    check_directory(str(tmp_path / "new"))
    (tmp_path / "file").write_text("x")
    for path, why in (
        (tmp_path, "has 1 files in it"),
        (tmp_path / "file", "cannot be used"),
        (tmp_path / "no" / "where", "is not a directory"),
    ):
        with pytest.raises(SupportBundleError, match=why):
            check_directory(str(path))
