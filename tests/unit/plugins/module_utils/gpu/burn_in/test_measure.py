# SPDX-License-Identifier: Apache-2.0
"""One GPU's share of the burn-in: what it leaves out, how much memory it takes, and when it stays alone."""

from __future__ import annotations

import threading
from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in import measure
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.measure import Worker


class Pipe:
    """Keeps what a worker tells."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def send(self, facts: dict[str, Any]) -> None:
        self.told.append(facts)

    def of(self, key: str) -> list[Any]:
        return [facts[key] for facts in self.told if key in facts]


def gpu(free: int = 80 << 30, **properties: Any) -> Any:
    """A PyTorch that knows its GPU and computes nothing."""
    found = SimpleNamespace(name="a GPU", uuid="aa", major=9, minor=0, total_memory=80 << 30, is_integrated=False)
    found.__dict__.update(properties)
    cuda = SimpleNamespace(
        set_device=lambda _: None,
        get_device_properties=lambda _: found,
        mem_get_info=lambda _: (free, 80 << 30),
        empty_cache=lambda: None,
    )
    return SimpleNamespace(device=lambda *words: words, cuda=cuda)


def worker(
    torch: Any, monkeypatch: pytest.MonkeyPatch, count: int = 1, meeting: Any = None, **options: Any
) -> tuple[Worker, Pipe]:
    pipe = Pipe()
    given = Namespace(device="cuda", seconds=0, repeats=2, memory_limit=0, unified=False, **options)
    for name in ("_answers", "_bf16", "_fp8", "_bandwidth", "_host_copy", "_all_reduce"):
        monkeypatch.setattr(Worker, name, lambda *_: {})
    return Worker(torch, given, 0, count, meeting or threading.Barrier(count), pipe), pipe


@pytest.mark.parametrize(("capability", "tried"), [((8, 0), False), ((8, 9), True), ((9, 0), True), ((12, 1), True)])
def test_a_gpu_without_fp8_is_not_asked_for_it(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], tried: bool
) -> None:
    own, pipe = worker(gpu(major=capability[0], minor=capability[1]), monkeypatch)
    own.work("nowhere")
    assert ("fp8" in [phase[0] for phase in pipe.of("phase")]) is tried
    assert pipe.of("problems") == []
    assert pipe.of("done") == [True]


def test_shared_memory_is_a_tenth_of_what_the_host_has_left_whatever_cuda_counts_as_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "_memory_available", lambda: 60 << 30)
    own, _ = worker(gpu(free=1 << 20, is_integrated=True), monkeypatch)
    assert own._memory_budget() == int((60 << 30) * 0.1)
    own, _ = worker(gpu(free=4 << 30), monkeypatch)
    assert own._memory_budget() == 2 << 30


def test_who_is_left_alone_says_so_once_and_waits_for_nobody_again(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(8)
    meeting.abort()
    own, pipe = worker(gpu(), monkeypatch, count=8, meeting=meeting)
    own.work("nowhere")
    assert pipe.of("problems") == [
        "the other GPUs did not reach answers_cold: this one continues alone, without all-reduce"
    ]
    assert "all_reduce" not in [phase[0] for phase in pipe.of("phase")]
    assert "bandwidth" in [phase[0] for phase in pipe.of("phase")]


def test_a_gpu_that_cannot_be_set_up_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(8)
    own, pipe = worker(SimpleNamespace(device=lambda *words: words), monkeypatch, count=8, meeting=meeting)
    own.work("nowhere")
    assert meeting.broken
    assert pipe.of("problems")[0].startswith("the GPU could not be set up: ")
