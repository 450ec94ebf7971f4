# SPDX-License-Identifier: Apache-2.0
"""A full disk at every write of a network change, of a model's record and of the fabric: told, and fixed by a run."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.confirmed_change.change import Change, ChangeError
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.record import put
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.undo_program import netplan_places
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.fetch_job import outcome
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import (
    Meter,
    read_record,
    record_directory,
)

from tests.unit.fake_host import FakeHost
from tests.unit.full_disk import FullDisk

pytestmark = pytest.mark.hostile


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FullDisk:
    return FullDisk(monkeypatch, tmp_path)


class Ground:
    """A host without any change."""

    def __init__(self, root: Path) -> None:
        self.file = root / "40-cx7.yaml"
        self.file.parent.mkdir(parents=True)
        self.file.write_text("former")
        self.places = netplan_places(str(root))
        Path(self.places.timer).parent.mkdir(parents=True)
        self.change = Change(FakeHost({"systemctl": "", "systemd-run": ""}), self.places)

    def arm(self) -> None:
        programs = {"undo.sh": "true", "apply.sh": "true"}
        self.change.prepare({"id": "a1"}, str(self.file), 60, programs, {"before.json": b"{}"})


@pytest.mark.slow  # a change for each of its writes
def test_a_change_is_prepared_whole_or_not_at_all(disk: FullDisk, tmp_path: Path) -> None:
    for point in itertools.count():
        ground = Ground(tmp_path / str(point))
        disk.points, disk.full_at = 0, point
        problem = ""
        try:
            ground.arm()
        except ChangeError as error:
            problem = str(error)
        disk.full_at = -1
        if not problem:
            break
        assert "nothing was changed: [Errno 28] No space left on device" in problem
        assert f"room in {ground.places.state}" in problem
        assert not ground.change.is_open()
        assert ground.file.read_text() == "former"
        ground.arm()
        assert ground.change.is_armed()
    assert point > 20


def test_a_change_is_taken_back_without_room_for_the_reason(disk: FullDisk, tmp_path: Path) -> None:
    ground = Ground(tmp_path / "ground")
    ground.arm()

    def undone(_call: Any) -> str:
        ground.change.clear()
        return ""

    ground.change.host = FakeHost({"systemctl start": undone, "systemctl": ""})
    disk.points, disk.full_at = 0, 0
    with pytest.raises(ChangeError, match=r"no link\. The host rolled .* back, but could not record .*make room"):
        ground.change.undo("no link")


def test_the_record_of_a_model_is_whole_or_the_former_one(disk: FullDisk, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    record_directory(str(tmp_path), "org/name", "one")
    for point in itertools.count():
        disk.points, disk.full_at = 0, point
        said = outcome(lambda _meter: record_directory(str(tmp_path), "org/name", "two"), Meter(), str(tmp_path))
        disk.full_at = -1
        if not said.get("failed"):
            break
        assert "cannot be used (No space left on device): check permissions, free space" in said["msg"]
        assert read_record(Host(), str(tmp_path))["revision"] == "one"
    assert point == 2
    assert read_record(Host(), str(tmp_path))["revision"] == "two"
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".safetensors"], "nothing half written stays"


def test_the_record_of_the_fabric_is_whole_or_the_former_one(disk: FullDisk, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    put(str(record), "one")
    for point in range(2):
        disk.points, disk.full_at = 0, point
        with pytest.raises(OSError, match="No space left on device"):
            put(str(record), "two")
        assert record.read_text() == "one"
    disk.full_at = -1
    put(str(record), "two")
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
