# SPDX-License-Identifier: Apache-2.0
"""Copies between host and GPU: where the memory is taken, what is measured, and who has no such way."""

from __future__ import annotations

import os
import threading
from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in import host_copy
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.host_copy import copy_rates, processors
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.measure import Worker


class Memory:
    """A tensor that can be copied."""

    def __init__(self, data: str) -> None:
        self.data = data

    def copy_(self, other: Memory, non_blocking: bool = False) -> None:
        assert non_blocking
        self.data = other.data


def torch(damage: bool = False) -> Any:
    def equal(one: Memory, other: Memory) -> bool:
        return one.data == other.data and not damage

    return SimpleNamespace(
        int64=8,
        arange=lambda length, **how: Memory(f"{length} {how}"),
        zeros=lambda *_, **__: Memory("nothing"),
        empty=lambda *_, **__: Memory("nothing"),
        equal=equal,
        cuda=SimpleNamespace(get_device_properties=lambda _: SimpleNamespace()),
    )


@pytest.mark.parametrize("damage", [False, True])
def test_both_directions_and_what_comes_back(damage: bool) -> None:
    asked: list[float] = []

    def timed(step: Any, work: float, seconds: float) -> tuple[float, float]:
        step()
        asked.append(seconds)
        return work * 100 / len(asked), 0.0

    before = os.sched_getaffinity(0)
    found = copy_rates(torch(damage), "gpu", True, 1 << 20, timed, 5.0)["host_copy"]
    assert found == {"to_device_gb_s": 0.1, "from_device_gb_s": 0.1, "bytes": 1 << 20, "is_equal": not damage}
    assert asked == [host_copy.SECONDS] * 2
    assert os.sched_getaffinity(0) == before


def test_processors_as_the_kernel_lists_them() -> None:
    assert processors("0-2,8,10-11\n") == {0, 1, 2, 8, 10, 11}
    assert processors("\n") == set()
    with pytest.raises(ValueError, match="invalid literal"):
        processors("a-b")


@pytest.mark.parametrize("unified", [True, False])
def test_gpus_copy_one_after_the_other_and_shared_memory_has_no_way_to_copy(
    monkeypatch: pytest.MonkeyPatch, unified: bool
) -> None:
    told: list[str] = []
    options = Namespace(device="cuda", seconds=0, unified=unified)
    own = Worker(SimpleNamespace(device=lambda *words: words), options, 1, 3, threading.Barrier(3), None)
    monkeypatch.setattr(own, "_meet", lambda _: told.append("waits"))
    monkeypatch.setattr(own, "_phase", lambda name, _: told.append(name))
    own._copy_with_host()
    assert told == ([] if unified else ["waits", "host_copy", "waits"])
