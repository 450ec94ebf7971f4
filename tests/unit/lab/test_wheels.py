# SPDX-License-Identifier: Apache-2.0
"""The lab's wheel index: wheels that uv and pip take, an index that names them, locks that pin them."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
import zipfile
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import parse_lock
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.venv import parse_metadata, sample

from firstlight_lab import wheels
from firstlight_lab.wheels import ELSEWHERE, RELEASES, UV, Wheel, fetch_uv, write_index

WHEELS = [ELSEWHERE, *(wheel for release in RELEASES.values() for wheel in release)]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    write_index(tmp_path / "wheels", tmp_path / "locks")
    return tmp_path


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.filename)
def test_a_wheel_is_the_same_every_time_and_records_what_is_in_it(index: Path, wheel: Wheel) -> None:
    path = index / "wheels" / "files" / wheel.filename
    assert path.read_bytes() == wheel.content() == wheel.content()
    with zipfile.ZipFile(path) as archive:
        about = f"{wheel.stem}.dist-info"
        assert parse_metadata(archive.read(f"{about}/METADATA").decode()) == (wheel.name, wheel.version)
        recorded = sample(archive.read(f"{about}/RECORD").decode(), None)
        assert {file.path for file in recorded} == {*archive.namelist()} - {f"{about}/RECORD"}
        for file in recorded:
            digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(file.path)).digest()).decode()
            assert digest.rstrip("=") == file.digest


@pytest.mark.parametrize("release", RELEASES)
def test_a_lock_pins_what_the_index_offers(index: Path, release: str) -> None:
    lock = parse_lock((index / "locks" / f"{release}.txt").read_text())
    engine, version = release.rsplit("-", 1)
    assert lock.packages[engine] == version
    for name, hashes in lock.hashes.items():
        page = (index / "wheels" / "simple" / name / "index.html").read_text()
        links = dict(re.findall(r'href="\.\./\.\./files/([^#"]+)#sha256=(\w+)"', page))
        assert set(hashes) <= set(links.values())
        for file, digest in links.items():
            assert hashlib.sha256((index / "wheels" / "files" / file).read_bytes()).hexdigest() == digest


def test_the_lock_for_elsewhere_passes_every_check_but_the_wheels_own(index: Path) -> None:
    assert parse_lock((index / "locks" / "elsewhere.txt").read_text()).packages == {"firstlight-lab-elsewhere": "1.0.0"}


def test_the_index_offers_uv_which_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    content = b"the wheel of uv"
    pin = tmp_path / "uv.txt"
    pin.write_text(f"uv==1.2.3 --hash=sha256:{hashlib.sha256(content).hexdigest()}\n")
    name = f"uv-1.2.3-py3-none-manylinux_2_17_{platform.machine()}.whl"

    def downloaded(argv: list[str]) -> None:
        ran.append(argv)
        (tmp_path / "kept").mkdir(exist_ok=True)
        (tmp_path / "kept" / name).write_bytes(content)

    monkeypatch.setattr(wheels, "UV", pin)
    monkeypatch.setattr(wheels, "run", downloaded)
    assert [fetch_uv(tmp_path / "kept"), fetch_uv(tmp_path / "kept")] == [tmp_path / "kept" / name] * 2
    assert len(ran) == 1
    assert f"--requirement={pin}" in ran[0]
    (tmp_path / "kept" / name).write_bytes(b"half of it")
    write_index(tmp_path / "wheels", tmp_path / "locks", [fetch_uv(tmp_path / "kept")])
    assert len(ran) == 2
    assert f'href="../../files/{name}#sha256=' in (tmp_path / "wheels/simple/uv/index.html").read_text()


def test_the_pin_is_where_the_lab_looks_for_it() -> None:
    assert parse_lock(UV.read_text()).packages.keys() == {"uv"}
