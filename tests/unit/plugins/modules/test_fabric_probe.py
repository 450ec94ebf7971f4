# SPDX-License-Identifier: Apache-2.0
"""fabric_probe against a host that plays the switch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.modules.fabric_probe import keep_proof, outcome, probe

PEER: dict[str, Any] = {"host": "spark1", "port": "fab0", "address": "192.168.100.11", "mtu": 9000}
ALL = "2 packets transmitted, 2 received, 0% packet loss, time 201ms\n"
NONE = "2 packets transmitted, 0 received, 100% packet loss, time 1013ms\n"


class Switch(Host):
    """Passes packets up to a size, once it has been asked often enough."""

    def __init__(self, mtu: int, deaf_for: int = 0) -> None:
        self.mtu = mtu
        self.deaf_for = deaf_for
        self.sizes: list[int] = []

    def run(self, argv: Sequence[str], *_limits: Any, **_options: Any) -> Result:
        """Play ping."""
        size = int(argv[argv.index("-s") + 1]) + 28
        self.sizes.append(size)
        passes = size <= self.mtu and len(self.sizes) > self.deaf_for
        return Result(tuple(argv), 0 if passes else 1, ALL if passes else NONE)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: now[0])


def test_a_good_path_is_asked_once() -> None:
    switch = Switch(9216)
    assert probe(switch, "spark0", PEER, 2, 1, deadline=10)["verdict"] == "pass"
    assert switch.sizes == [9000]


def test_a_path_may_settle() -> None:
    switch = Switch(9216, deaf_for=3)
    assert probe(switch, "spark0", PEER, 2, 1, deadline=10)["verdict"] == "pass"
    assert switch.sizes == [9000] * 4


def test_a_switch_left_at_1500_is_found_out() -> None:
    switch = Switch(1500)
    record = probe(switch, "spark0", PEER, 2, 1, deadline=3)
    assert record["verdict"] == "fail"
    assert "the switch does not pass jumbo frames" in record["remedy"]
    assert switch.sizes == [9000] * 4 + [84]


def test_a_dead_path() -> None:
    assert "link dead" in probe(Switch(0), "spark0", PEER, 2, 1, deadline=0)["observed"]


def test_only_the_record_is_a_change(tmp_path: Path) -> None:
    path = str(tmp_path / "proof")
    assert outcome(None, None, None, []) == {"changed": False, "records": []}
    assert outcome(path, "old", "old", [])["changed"] is False
    assert outcome(path, None, None, [])["changed"] is False
    changed = outcome(path, None, "new", [])
    assert changed["changed"] is True
    assert changed["diff"]["after"] == "new"


def test_the_record_is_kept_and_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "firstlight" / "fabric.proof"
    keep_proof(str(path), "proven\n", None, passed=True)
    assert path.read_text() == "proven\n"
    assert path.stat().st_mode & 0o7777 == 0o644
    assert [file.name for file in path.parent.iterdir()] == ["fabric.proof"]
    keep_proof(str(path), "proven\n", "proven\n", passed=False)
    keep_proof(str(path), "proven\n", None, passed=False)
    assert not path.exists()
