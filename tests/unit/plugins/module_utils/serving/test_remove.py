# SPDX-License-Identifier: Apache-2.0
"""A teardown: what it runs, in which order, and what it does to directories."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.module_utils.serving import removal
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import REPIN_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.remove import RemoveError, find, remove
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import LOCK_NAME, RECORD_NAME

from tests.unit.fake_host import Answer, FakeHost


def machine_with(commands: Mapping[str, Answer] | None = None, files: Mapping[str, str] | None = None) -> FakeHost:
    return FakeHost({"": "", **(commands or {})}, files)


def snapshot(root: Path, name: str) -> Path:
    directory = root / name
    directory.mkdir(parents=True)
    (directory / RECORD_NAME).write_text("{}")
    (directory / "model.safetensors").write_bytes(b"x" * 10)
    return directory


def test_the_secrets_of_all_nodes_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("supervisor-spark1.token", "supervisor-spark2.token", "cluster.token", "mine.token")
    for name in names:
        (tmp_path / name).touch()
    patterns = [path.replace("/etc/firstlight", str(tmp_path)) for path in removal.SECRETS]
    monkeypatch.setattr(removal, "SECRETS", tuple(patterns))
    found = find(machine_with(), str(tmp_path / "models"))
    assert sorted(found.secrets) == sorted(str(tmp_path / name) for name in names[:3])


def test_only_verified_snapshots_are_weights(tmp_path: Path) -> None:
    ours = snapshot(tmp_path / "models", "org--name/abc")
    elsewhere = snapshot(tmp_path, "data")
    (tmp_path / "models" / "mine").mkdir()
    found = find(machine_with(), str(tmp_path / "models"), (), [str(elsewhere), str(tmp_path / "models" / "mine")])
    assert [path for path, _ in found.weights] == sorted([str(ours), str(elsewhere)])


def test_a_copy_that_was_cut_off_is_weights_too(tmp_path: Path) -> None:
    begun = tmp_path / "models" / "org--name" / "abc"
    begun.mkdir(parents=True)
    (begun / LOCK_NAME).touch()
    (begun / "model.safetensors.partial").write_bytes(b"x" * 10)
    assert [path for path, _ in find(machine_with(), str(tmp_path / "models")).weights] == [str(begun)]


def test_nothing_of_what_was_on_its_way_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transfer, records = tmp_path / "transfer", tmp_path / "images"
    (transfer / "sha256-0").mkdir(parents=True)
    (transfer / "sha256-0" / "image.tar.partial").write_bytes(b"x" * 10)
    records.mkdir()
    (records / "sha256-0.json").touch()
    (records / "mine.txt").touch()
    monkeypatch.setattr(removal, "SCRATCH", (str(transfer), str(tmp_path / "none")))
    monkeypatch.setattr(removal, "IMAGE_RECORDS", str(records))
    monkeypatch.setattr(removal, "EMPTY_DIRECTORIES", (str(records),))
    found = find(machine_with(), str(tmp_path / "models"))
    going = removal.wanted(found, weights=False, images=False)
    assert [path for path, _ in going.scratch] == [str(transfer)]
    assert going.records == ()
    remove(machine_with(), going, str(tmp_path / "models"))
    assert not transfer.exists()
    # A record stays with its image, and goes with it though the image is gone already.
    assert (records / "sha256-0.json").exists()
    going = removal.wanted(found, weights=False, images=True)
    assert not going.nothing
    remove(machine_with(), removal.Found(records=going.records), str(tmp_path / "models"))
    assert [path.name for path in records.iterdir()] == ["mine.txt"]


def test_weights_go_with_their_empty_parent_and_nothing_else(tmp_path: Path) -> None:
    ours = snapshot(tmp_path, "org--name/abc")
    (tmp_path / "mine").mkdir()
    remove(machine_with(), removal.Found(weights=((str(ours), 10),)), str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_supervisor_is_stopped_before_the_others_and_units_before_containers(tmp_path: Path) -> None:
    unit_file = tmp_path / "firstlight-ray.service"
    unit_file.touch()
    machine = machine_with()
    going = removal.Found(
        units=("firstlight-supervisor.service", "firstlight-ray.service"),
        containers=("firstlight-ray",),
        files=(str(unit_file),),
        images=("firstlight/engine:sha256-x",),
    )
    remove(machine, going, str(tmp_path))
    assert not unit_file.exists()
    order = [
        "systemctl disable --now firstlight-supervisor.service",
        "systemctl stop firstlight-ray.service",
        "docker rm --force --volumes firstlight-ray",
        "systemctl daemon-reload",
        "docker rmi firstlight/engine:sha256-x",
    ]
    assert [command for command in machine.lines if command in order] == order


def test_what_cannot_be_stopped_ends_it_before_files_go(tmp_path: Path) -> None:
    secret = tmp_path / "cluster.token"
    secret.touch()
    machine = machine_with({"systemctl stop": Result(("systemctl",), 1, "", "timed out")})
    going = removal.Found(units=("firstlight-ray.service",), secrets=(str(secret),))
    with pytest.raises(RemoveError, match=r"firstlight-ray\.service cannot be stopped"):
        remove(machine, going, str(tmp_path))
    assert secret.exists()


def test_an_image_that_went_with_another_name_is_no_failure(tmp_path: Path) -> None:
    gone = Result(("docker",), 1, "", "Error response from daemon: No such image: x")
    remove(machine_with({"docker rmi": gone}), removal.Found(images=("x@sha256:1",)), str(tmp_path))
    used = Result(("docker",), 1, "", "conflict: unable to remove repository reference")
    with pytest.raises(RemoveError, match="image x@sha256:1"):
        remove(machine_with({"docker rmi": used}), removal.Found(images=("x@sha256:1",)), str(tmp_path))


def test_a_host_in_a_repin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RemoveError, match=r"repin\.yml"):
        find(machine_with(files={REPIN_PATH: "{}"}), str(tmp_path))


def test_a_docker_that_is_not_there_has_nothing_and_one_that_is_ill_is_named(tmp_path: Path) -> None:
    absent = Result(("docker",), 127, problem="docker is not installed")
    assert find(machine_with({"docker": absent}), str(tmp_path)).containers == ()
    ill = Result(("docker",), 1, "", "Cannot connect to the Docker daemon")
    with pytest.raises(RemoveError, match="Docker does not answer"):
        find(machine_with({"docker": ill}), str(tmp_path))
