# SPDX-License-Identifier: Apache-2.0
"""An image as a file while others fetch it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image_transfer import keep_archive
from ansible_collections.firstlight.cluster.plugins.module_utils.image.store import ImageError
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import RECORD_NAME

from tests.unit.fake_host import Call, FakeHost, failure

TAG = "sha256-" + "0f" * 32
NAME = f"firstlight/engine:{TAG}"
ID = "sha256:" + "1a" * 32


class Docker(FakeHost):
    """Stands for a host whose Docker has one image."""

    def __init__(self, image: str = ID, free: int = 10**12) -> None:
        super().__init__({"docker info": "/srv/docker\n", "docker image": self._inspect, "docker save": self._save})
        self.image, self.free = image, free
        self.saves = 0

    def _inspect(self, _: Call) -> Result:
        found = json.dumps([{"Id": self.image, "Size": 1000}])
        return Result((), 0, found) if self.image else Result((), 1, "[]", "No such image")

    def _save(self, call: Call) -> int:
        self.saves += 1
        Path(call.argv[2].removeprefix("--output=")).write_bytes(b"layers")
        return 0

    def disk_used(self, path: str, most: int = 4096) -> int:
        return Host.disk_used(self, path, most)


def run(docker: Docker, root: Path, state: str = "archived", check_mode: bool = False, size: int = 0) -> dict[str, Any]:
    parameters = {"name": NAME, "state": state, "size_bytes": size, "transfer": str(root)}
    return keep_archive(docker, parameters, check_mode)


def test_it_is_written_with_its_record_once(tmp_path: Path) -> None:
    docker = Docker()
    first = run(docker, tmp_path)
    directory = tmp_path / TAG
    assert first["changed"] is True
    assert (first["directory"], first["path"]) == (str(directory), str(directory / "image.tar"))
    assert (first["repository"], first["revision"], first["bytes"]) == ("firstlight/image", "1a" * 20, 6)
    assert directory.stat().st_mode & 0o7777 == 0o700
    assert list(json.loads((directory / RECORD_NAME).read_text())["files"]) == ["image.tar"]
    again = run(docker, tmp_path)
    assert (again["changed"], again["revision"], again["bytes"], docker.saves) == (False, "1a" * 20, 6, 1)


@pytest.mark.parametrize("damage", ["file", "record", "image"])
def test_what_is_not_of_this_image_is_written_anew(tmp_path: Path, damage: str) -> None:
    docker = Docker()
    run(docker, tmp_path)
    if damage == "file":
        (tmp_path / TAG / "image.tar").write_bytes(b"others")
    elif damage == "record":
        (tmp_path / TAG / RECORD_NAME).write_text("{")
    else:
        docker.image = "sha256:" + "2b" * 32
    assert run(docker, tmp_path)["changed"] is True
    assert docker.saves == 2


def test_others_are_removed(tmp_path: Path) -> None:
    (tmp_path / ("sha256-" + "9" * 64)).mkdir()
    (tmp_path / "notes").mkdir()
    run(Docker(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", TAG]


def test_absent(tmp_path: Path) -> None:
    root = tmp_path / "transfer"
    assert run(Docker(), root, "unarchived")["changed"] is False
    run(Docker(), root)
    assert run(Docker(), root, "unarchived", check_mode=True)["changed"] is True
    assert (root / TAG).exists()
    assert run(Docker(), root, "unarchived")["changed"] is True
    assert not root.exists()


def test_check_mode_writes_nothing(tmp_path: Path) -> None:
    docker = Docker()
    for state in ("archived", "receiving"):
        assert run(docker, tmp_path, state, check_mode=True)["changed"] is True
    docker.image = ""
    assert run(docker, tmp_path, check_mode=True)["revision"] == ""
    assert list(tmp_path.iterdir()) == []


def test_an_image_that_is_not_there_cannot_be_given_on(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="obtain it here first"):
        run(Docker(image=""), tmp_path)


def test_room_is_looked_for_before(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="are free"):
        run(Docker(free=1000), tmp_path)
    with pytest.raises(ImageError, match=r"needs 3\.1 GB on /srv/docker"):
        run(Docker(free=10**9), tmp_path, "receiving", size=10**9)
    assert list(tmp_path.iterdir()) == []


def test_what_was_fetched_needs_no_room_again(tmp_path: Path) -> None:
    place = tmp_path / TAG
    place.mkdir()
    (place / "image.tar.partial").write_bytes(b"x" * 8192)
    assert run(Docker(free=3 * 8192), tmp_path, "receiving", size=8192)["changed"] is False


def test_a_failed_save_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    docker = Docker()
    docker.commands["docker save"] = failure("write: no space left on device")
    with pytest.raises(ImageError, match=r"cannot be written to .* \(write: no space left on device\)"):
        run(docker, tmp_path)
    assert list((tmp_path / TAG).iterdir()) == []


@pytest.mark.parametrize("name", ["firstlight/engine", "firstlight/engine:../../etc", "other:sha256-" + "0" * 64, ""])
def test_what_is_no_local_name_removes_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "kept").mkdir()
    parameters = {"name": name, "state": "unarchived", "size_bytes": 0, "transfer": str(tmp_path)}
    with pytest.raises(ImageError, match="use the local name"):
        keep_archive(Host(), parameters, check_mode=False)
    assert (tmp_path / "kept").is_dir()
