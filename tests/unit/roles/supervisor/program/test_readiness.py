# SPDX-License-Identifier: Apache-2.0
"""The page cache while an engine loads: given back when it stands in the engine's way, and only then."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import GroupConfig, Memory, Needs
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import GroupPlan, UnitPlan
from ansible_collections.firstlight.cluster.roles.supervisor.program import needs
from ansible_collections.firstlight.cluster.roles.supervisor.program.background import Background
from ansible_collections.firstlight.cluster.roles.supervisor.program.needs import Free
from ansible_collections.firstlight.cluster.roles.supervisor.program.readiness import (
    LOADING_DROP_SECONDS,
    Readiness,
)

GIB = 1 << 30
TOTAL = 122 * GIB


@pytest.mark.parametrize(
    ("unused", "available", "worth"),
    [
        (2, 60, True),
        (7, 9, True),
        (9, 60, False),  # enough is unused
        (2, 2, False),  # the engine has the memory, and no file
        (0, 0, False),  # a GPU's memory, or a kernel that does not tell
    ],
)
def test_it_is_worth_while_when_little_is_unused_and_much_is_cache(unused: int, available: int, worth: bool) -> None:
    assert needs.worth_dropping(Free(available * GIB, TOTAL, unused=unused * GIB)) == worth


class Machine:
    """A node whose kernel tells its memory, and counts how often its cache was dropped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: Path, *, drop: bool = True) -> None:
        self.now = 0.0
        self._meminfo, self._control = place / "meminfo", place / "drop_caches"
        monkeypatch.setattr(needs, "MEMINFO", str(self._meminfo))
        monkeypatch.setattr(needs, "DROP_CACHES", str(self._control))
        self.holds(unused=2, available=60)
        plan = GroupPlan("server", "n0", {"n0": (UnitPlan("firstlight-server.service"),)})
        group = GroupConfig(plan, needs=Needs(memory=Memory("unified", 0.82), drop_caches=drop))
        self._readiness = Readiness(group, "", Host(), Background(), lambda: self.now)

    def holds(self, *, unused: int, available: int) -> None:
        kib = GIB // 1024
        self._meminfo.write_text(
            f"MemTotal: {TOTAL // 1024} kB\nMemFree: {unused * kib} kB\nMemAvailable: {available * kib} kB\n"
        )

    def look(self, **how: Any) -> bool:
        """One look while the group runs; whether the cache was dropped in it."""
        self._control.unlink(missing_ok=True)
        asyncio.run(self._readiness.while_running(**how))
        return self._control.exists()


def test_while_the_engine_loads_the_cache_is_dropped_again_and_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, tmp_path)
    assert machine.look(loading=True)
    machine.now = LOADING_DROP_SECONDS - 1
    assert not machine.look(loading=True), "not with every look"
    machine.now = LOADING_DROP_SECONDS
    assert machine.look(loading=True)
    machine.now *= 2
    machine.holds(unused=40, available=60)
    assert not machine.look(loading=True), "memory enough"


def test_a_server_that_serves_keeps_its_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, tmp_path)
    assert not machine.look()
    assert not machine.look(loading=False)


def test_nothing_is_dropped_where_gpus_have_their_own_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not Machine(monkeypatch, tmp_path, drop=False).look(loading=True)


def test_a_kernel_that_does_not_let_it_is_told_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(monkeypatch, tmp_path)
    monkeypatch.setattr(needs, "DROP_CACHES", str(tmp_path / "no" / "such"))
    for number in range(3):
        machine.now = number * LOADING_DROP_SECONDS
        machine.look(loading=True)
    assert capfd.readouterr().out.count("the page cache stays") == 1
