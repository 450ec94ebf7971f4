# SPDX-License-Identifier: Apache-2.0
"""Whether a node could start: each thing that is missing is one sentence, and what cannot be told is missing too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import Memory, Needs
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import RECORD_NAME
from ansible_collections.firstlight.cluster.roles.supervisor.program import needs

from tests.unit.fake_host import FakeHost

from .test_units import said

UNIFIED = Memory("unified", 0.85)


def meminfo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> Host:
    (tmp_path / "meminfo").write_text(text)
    monkeypatch.setattr(needs, "MEMINFO", str(tmp_path / "meminfo"))
    return Host()


@pytest.mark.parametrize(("available", "words"), [(900, ""), (400, "(40%), expected 85%")])
def test_unified_memory_is_that_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, available: int, words: str
) -> None:
    host = meminfo(monkeypatch, tmp_path, f"MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: {available} kB\n")
    free = needs.free_memory(host, UNIFIED)
    assert (free.bytes, free.total) == (available * 1024, 1000 * 1024)
    told = needs.memory_problem(free, UNIFIED)
    assert words in told
    assert bool(told) == bool(words)


@pytest.mark.parametrize(
    ("mib", "early", "words"),
    [
        # 0.82 of a GB10's 124620 MiB is 102188.4: the engine rounds up, and looks after CUDA and NCCL took theirs.
        (102_189, 0, ""),
        (102_188, 0, "expected 82%: something else"),
        (104_135, 1946, ""),
        (104_134, 1946, "expected 82% and 2.0 GB for the start itself"),
        (102_189, 1946, "expected 82% and 2.0 GB"),
    ],
)
def test_it_asks_for_what_the_engine_will_ask_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mib: int, early: int, words: str
) -> None:
    memory = Memory("unified", 0.82, overhead_mib=early)
    host = meminfo(monkeypatch, tmp_path, f"MemTotal: {124_620 * 1024} kB\nMemAvailable: {mib * 1024} kB\n")
    told = needs.memory_problem(needs.free_memory(host, memory), memory)
    assert words in told
    assert bool(told) == bool(words)


def test_memory_that_is_not_told_is_a_problem_only_where_it_matters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    free = needs.free_memory(meminfo(monkeypatch, tmp_path, ""), UNIFIED)
    assert "does not show the memory" in needs.memory_problem(free, UNIFIED)
    assert needs.memory_problem(free, Memory()) == ""


@pytest.mark.parametrize(
    ("gpus", "words"),
    [((0,), ""), ((0, 1), "on GPU 1 (25%), expected 90%"), ((), "on GPU 1"), ((0, 2), "the memory of GPU 2")],
)
def test_of_gpus_the_fullest_counts(gpus: tuple[int, ...], words: str) -> None:
    memory = Memory("discrete", 0.9, gpus)
    free = needs.free_memory(said("0, 80000, 81559\n1, 20390, 81559\n3, [N/A], [N/A]\n"), memory)
    told = needs.memory_problem(free, memory)
    assert words in told
    assert bool(told) == bool(words)


def test_an_nvidia_smi_that_fails_is_told() -> None:
    free = needs.free_memory(said(rc=9, stderr="couldn't communicate with the NVIDIA driver"), Memory("discrete", 0.9))
    assert "couldn't communicate" in free.problem


@pytest.mark.parametrize(
    ("host", "wanted", "words"),
    [
        (said("sha256:aa\n"), Needs(image="x"), ""),
        (said("sha256:aa\n"), Needs(image="x", image_record="/nowhere"), "has no record in /nowhere"),
        (said(rc=1, stderr="Error response from daemon: No such image: x"), Needs(image="x"), "is not on this node"),
        (said(rc=1, stderr="Cannot connect to the Docker daemon"), Needs(image="x"), "Cannot connect"),
        (said(rc=1), Needs(), ""),
    ],
)
def test_the_image_is_the_one_that_was_verified(host: FakeHost, wanted: Needs, words: str) -> None:
    told = needs.image_problem(host, wanted)
    assert words in told
    assert bool(told) == bool(words)


def test_the_proof_of_an_image_holds_its_id(tmp_path: Path) -> None:
    proof = tmp_path / "proof.json"
    proof.write_text(json.dumps({"id": "sha256:aa", "name": "x"}))
    wanted = Needs(image="x", image_record=str(proof))
    assert needs.image_problem(said("sha256:aa\n"), wanted) == ""
    assert "expected sha256:aa, which was verified" in needs.image_problem(said("sha256:cc\n"), wanted)


def test_a_shard_that_changed_is_named(tmp_path: Path) -> None:
    shard = tmp_path / "model-1.safetensors"
    shard.write_bytes(b"weights")
    found = shard.stat()
    entry = {"digest": "sha256:0", "size": found.st_size, "mtime_ns": found.st_mtime_ns}
    record = {"repository": "a/b", "revision": "0" * 40, "files": {shard.name: entry}}
    assert "has no record" in needs.weights_problem(Host(), str(tmp_path))
    (tmp_path / RECORD_NAME).write_text(json.dumps(record))
    assert needs.weights_problem(Host(), str(tmp_path)) == ""
    shard.write_bytes(b"damaged!")
    told = needs.weights_problem(Host(), str(tmp_path))
    assert f"{shard.name} has 8 bytes, expected 7" in told
    assert "run playbooks/serve.yml" in told
    (tmp_path / RECORD_NAME).write_text("{")
    assert "is not JSON" in needs.weights_problem(Host(), str(tmp_path))
    assert needs.weights_problem(Host(), "") == ""


def test_a_token_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert f"{path} missing or empty" in needs.token_problem(Host(), [str(path)])
    path.write_text("token\n")
    assert needs.token_problem(Host(), [str(path)]) == ""
