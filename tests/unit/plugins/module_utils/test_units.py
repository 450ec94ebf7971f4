# SPDX-License-Identifier: Apache-2.0
"""What a unit has said, as a message shows it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils import units
from ansible_collections.firstlight.cluster.plugins.module_utils.units import last_lines

from tests.unit.fake_host import FakeHost


def started(seconds: float) -> FakeHost:
    """A systemd that started the unit at this moment, and a journal of one line."""
    shown = f"InactiveExitTimestampMonotonic={seconds * 1e6:.0f}\n"
    return FakeHost({"systemctl show": shown, "journalctl": "token very-secret refused\n\n"})


def test_lines_of_an_earlier_start_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "time", SimpleNamespace(monotonic=lambda: 130.0, time=lambda: 1_700_000_000.0))
    machine = started(100.0)
    assert last_lines(machine, "firstlight-ray.service", 40, ["very-secret"]) == ["token ******** refused"]
    assert "--since=@1699999970" in machine.ran[-1]


def test_a_unit_that_systemd_has_forgotten_is_read_as_a_whole() -> None:
    machine = started(0)
    assert last_lines(machine, "firstlight-ray.service", 40) == ["token very-secret refused"]
    assert not any(word.startswith("--since") for word in machine.ran[-1])
