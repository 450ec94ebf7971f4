# SPDX-License-Identifier: Apache-2.0
"""The limit that many nodes need raised is as it was when they are gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firstlight.lab import limits
from firstlight.lab.cache import Cache
from firstlight.lab.limits import needed, nodes_of, raise_for, restore


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    made = Cache(tmp_path / "cache")
    monkeypatch.setattr(limits, "_memory", lambda _: tmp_path / "run" / "inotify.json")
    return made


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    path = tmp_path / "max_user_instances"
    path.write_text("128\n")
    return path


def test_a_lab_of_four_changes_nothing(cache: Cache, setting: Path) -> None:
    raise_for(cache, 4, pytest.fail, setting)
    restore(cache, setting)
    assert setting.read_text() == "128\n"


def test_the_first_value_comes_back_however_often_it_was_raised(cache: Cache, setting: Path, tmp_path: Path) -> None:
    for nodes in (8, 16, 4):
        raise_for(cache, nodes, pytest.fail, setting)
    assert setting.read_text() == f"{needed(16)}\n"
    restore(cache, setting)
    assert setting.read_text() == "128\n"
    assert not (tmp_path / "run").exists()


def test_what_somebody_set_since_is_left_alone(cache: Cache, setting: Path) -> None:
    raise_for(cache, 16, pytest.fail, setting)
    setting.write_text("8192\n")
    restore(cache, setting)
    assert setting.read_text() == "8192\n"


def test_who_may_not_change_it_is_told_how_to(cache: Cache, setting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "write_text", refuse)
    said: list[str] = []
    raise_for(cache, 16, said.append, setting)
    (line,) = said
    assert line.startswith(
        "fs.inotify.max_user_instances is 128 and this user may not change it; 16 nodes need up to 320"
    )
    assert "sysctl -w fs.inotify.max_user_instances=320 as root" in line


def test_the_nodes_of_all_labs_count(tmp_path: Path) -> None:
    for name, nodes in (("a", 2), ("b", 3)):
        (tmp_path / name).write_text(json.dumps({"nodes": [{}] * nodes}))
    assert nodes_of(tmp_path.iterdir()) == 5
