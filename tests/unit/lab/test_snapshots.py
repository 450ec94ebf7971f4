# SPDX-License-Identifier: Apache-2.0
"""Snapshots: what is copied and what is linked, and the lab's own files. The whole of it runs in tests/e2e/lab."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from firstlight.cli import main
from firstlight_lab import cluster, command, snapshots
from firstlight_lab.cache import Cache
from firstlight_lab.cluster import Lab
from firstlight_lab.host import Engine
from firstlight_lab.images import equipment
from firstlight_lab.shell import LabError


@pytest.fixture(scope="module")
def disks() -> ModuleType:
    """The program that runs beside the nodes' disks."""
    module = ModuleType("disks")
    exec(compile(equipment("disks.py"), "disks.py", "exec"), module.__dict__)
    return module


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A node's Docker disk: an image layer, a container's layer, a layer that is still being loaded, and databases."""
    made = tmp_path / "disk"
    for path, content in {
        "image/overlay2/layerdb/sha256/aa/cache-id": "layer1",
        "overlay2/layer1/diff/usr/bin/program": "never changes",
        "overlay2/layer1/link": "ABC",
        "overlay2/container1/diff/log": "written in place",
        "overlay2/half/diff/usr/bin/program": "half a prog",
        "network/files/local-kv.db": "bolt",
        "volumes/metadata.db": "bolt",
    }.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(content)
    (made / "overlay2/l").mkdir()
    (made / "overlay2/l/ABC").symlink_to("../layer1/diff")
    (made / "overlay2").chmod(0o710)
    return made


def order(action: str, snapshot: Path, **nodes: tuple[Path, Path | None]) -> dict[str, Any]:
    named = {name: {"layer": str(layer), "disk": disk and str(disk)} for name, (layer, disk) in nodes.items()}
    return {"action": action, "snapshot": str(snapshot), "nodes": named}


def tree(directory: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path.relative_to(directory)): (path.lstat().st_mode, path.read_text() if path.is_file() else "")
        for path in directory.rglob("*")
    }


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    made = tmp_path / "layer"
    made.mkdir(mode=0o755)
    (made / "file").write_text("original")
    return made


def test_only_complete_image_layers_are_linked(disks: ModuleType, disk: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    disks.copy_disk(disk, copy)
    assert tree(copy) == tree(disk)
    linked = {
        str(path.relative_to(copy))
        for path in copy.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_nlink > 1
    }
    assert linked == {"overlay2/layer1/diff/usr/bin/program", "overlay2/layer1/link"}
    assert (copy / "overlay2").stat().st_mode & 0o777 == 0o710


def test_restore_reverts_layer_and_disk(disks: ModuleType, disk: Path, layer: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    before = tree(disk), tree(layer)
    assert disks.main(order("take", snapshot, spark0=(layer, disk))) == 0
    (layer / "file").write_text("changed")
    (layer / "new").write_text("new")
    (disk / "overlay2/container1/diff/log").write_text("longer than before")
    (disk / "network/files/local-kv.db").write_text("other")
    (disk / "volumes/new").write_text("new")
    (disk / "overlay2/layer2").mkdir()
    assert disks.main(order("restore", snapshot, spark0=(layer, disk))) == 0
    assert (tree(disk), tree(layer)) == before


def test_restore_brings_back_a_removed_image(disks: ModuleType, disk: Path, layer: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    before = tree(disk)
    disks.main(order("take", snapshot, spark0=(layer, disk)))
    disks.empty(disk)
    assert disks.main(order("restore", snapshot, spark0=(layer, disk))) == 0
    assert tree(disk) == before


def test_restore_replaces_an_image_layer_that_lost_a_file(
    disks: ModuleType, disk: Path, layer: Path, tmp_path: Path
) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    before = tree(disk)
    disks.main(order("take", snapshot, spark0=(layer, disk)))
    (disk / "overlay2/layer1/diff/usr/bin/program").unlink()
    assert disks.main(order("restore", snapshot, spark0=(layer, disk))) == 0
    assert tree(disk) == before


def test_an_image_layer_that_was_changed_in_place_stops_the_restore_before_any_change(
    disks: ModuleType, disk: Path, layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    disks.main(order("take", snapshot, spark0=(layer, disk), services=(layer, None)))
    (layer / "file").write_text("changed")
    with (disk / "overlay2/layer1/diff/usr/bin/program").open("r+") as file:
        file.write("N")
    assert disks.main(order("restore", snapshot, spark0=(layer, disk))) == snapshots.DAMAGED == disks.DAMAGED
    assert capsys.readouterr().out.strip() == "spark0"
    assert (layer / "file").read_text() == "changed"


def inspected(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "Name": f"/firstlight-net-{name}",
        "Image": "sha256:1",
        "State": {"Running": True, "Paused": False},
        "HostConfig": {"RestartPolicy": {"Name": "always"}},
        "GraphDriver": {"Name": "overlay2", "Data": {"UpperDir": "/var/lib/docker/overlay2/x/diff"}},
        "Mounts": [{"Type": "volume", "Source": "/volumes/1/_data", "Destination": "/var/lib/docker"}],
        **changes,
    }


def test_a_container_is_described_with_its_disks_and_power() -> None:
    off = inspected(
        "spark1", State={"Running": False, "Paused": False}, Mounts=[], HostConfig={"RestartPolicy": {"Name": "no"}}
    )
    on, powered_off = snapshots.described([inspected("spark0"), off])
    assert (on.container, on.layer, on.disk) == (
        "firstlight-net-spark0",
        "/var/lib/docker/overlay2/x/diff",
        "/volumes/1/_data",
    )
    assert on.power == snapshots.Power(running=True, restart="always")
    assert powered_off.disk is None
    assert powered_off.power == snapshots.Power(running=False, restart="no")


@pytest.mark.parametrize("driver", [{"Name": "btrfs", "Data": None}, None])
def test_another_storage_driver_is_refused(driver: dict[str, Any] | None) -> None:
    with pytest.raises(LabError, match="snapshots need overlay2"):
        snapshots.described([inspected("spark0", GraphDriver=driver)])


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab as its record tells, on an engine that has no volumes."""
    made = Lab(Cache(tmp_path), "net", lambda _: None)
    made.directory.mkdir(parents=True)
    made.write_record({"nodes": [{"name": "spark0", "address": "172.29.0.10", "ports": []}]})
    monkeypatch.setattr(cluster, "find_engine", lambda _: Engine("unix:///nowhere", private=True))
    monkeypatch.setattr(Engine, "docker", lambda *_, **__: "")
    return made


def keep(lab: Lab, name: str, token: str, taken: str) -> None:
    """A complete snapshot without disks."""
    snapshots._copy_files(lab.directory, snapshots._files(lab, token))
    power = {"spark0": snapshots.Power(running=True, restart="always")}
    snapshots._write(lab, snapshots.Snapshot(name, taken, token, power))


def test_snapshots_are_listed_from_the_oldest_on(lab: Lab) -> None:
    assert snapshots.names(lab) == []
    keep(lab, "new", "1", "2026-11-17T11:00:00+00:00")
    keep(lab, "old", "2", "2026-11-17T10:00:00+00:00")
    assert snapshots.names(lab) == ["old", "new"]


def test_the_labs_own_files_are_restored(lab: Lab) -> None:
    (lab.directory / "keys").mkdir(mode=0o700)
    (lab.directory / "keys/spark0").write_text("key")
    (lab.directory / "keys/spark0").chmod(0o600)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.bind(str(lab.directory / "ssh"))
        keep(lab, "base", "1", "2026-11-17T11:00:00+00:00")
    record = lab.record()
    lab.write_record({"nodes": []})
    (lab.directory / "keys/spark0").unlink()
    (lab.directory / "keys/other").write_text("other key")
    (lab.directory / "operator-password").write_text("secret")
    snapshots._restore_files(snapshots._files(lab, "1"), lab.directory)
    assert lab.record() == record
    assert [(path.name, path.stat().st_mode & 0o777) for path in (lab.directory / "keys").iterdir()] == [
        ("spark0", 0o600)
    ]
    assert sorted(os.listdir(lab.directory)) == ["keys", "lab.json", "snapshots"]
    assert snapshots.names(lab) == ["base"]


def test_a_snapshot_that_replaces_another_leaves_nothing_of_it(lab: Lab) -> None:
    keep(lab, "base", "1", "2026-11-17T11:00:00+00:00")
    keep(lab, "base", "2", "2026-11-17T12:00:00+00:00")
    snapshots._remove_incomplete(lab, lab.engine())
    assert sorted(path.name for path in (lab.directory / "snapshots").iterdir()) == ["2", "base.json"]


def test_the_record_of_a_snapshot_survives_being_written_and_read(lab: Lab) -> None:
    keep(lab, "base", "1", "2026-11-17T11:00:00+00:00")
    [found] = snapshots.listing(lab)
    assert (found.name, found.token) == ("base", "1")
    assert found.power == {"spark0": snapshots.Power(running=True, restart="always")}


@pytest.mark.parametrize("known", [True, False])
def test_an_unknown_snapshot_is_refused_with_what_there_is(lab: Lab, known: bool) -> None:
    if known:
        keep(lab, "base", "1", "2026-11-17T11:00:00+00:00")
    message = "Its snapshots are base" if known else "take one with: firstlight lab snapshot bse --name net"
    with pytest.raises(LabError, match=message):
        snapshots.restore(lab, "bse")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "Base", "-x", "x" * 41])
def test_a_name_that_is_no_file_name_is_refused(lab: Lab, name: str) -> None:
    with pytest.raises(LabError, match="name is"):
        snapshots.take(lab, name)


def test_a_lab_that_is_not_up_is_refused(tmp_path: Path) -> None:
    lab = Lab(Cache(tmp_path), "net", lambda _: None)
    for action in (snapshots.take, snapshots.restore, snapshots.remove):
        with pytest.raises(LabError, match="There is no lab 'net'"):
            action(lab, "base")
    assert not lab.directory.exists()


def test_the_command_lists_snapshots(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(lab, "base", "1", "2026-11-17T11:00:00+00:00")
    monkeypatch.setattr(command, "default_root", lambda: tmp_path)
    assert main(["lab", "snapshots", "--name", "net"]) == 0
    assert capsys.readouterr().out.split() == [
        "snapshot",
        "taken",
        "nodes",
        "base",
        "2026-11-17T11:00:00+00:00",
        "spark0",
    ]
    assert main(["lab", "snapshots", "--name", "net", "--remove", "base"]) == 0
    assert snapshots.names(lab) == []
    assert sorted(os.listdir(lab.directory / "snapshots")) == ["lock"]
    assert json.loads((lab.directory / "lab.json").read_text())
