# SPDX-License-Identifier: Apache-2.0
"""The limits that many nodes need raised are as they were when those are gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firstlight_lab import limits
from firstlight_lab.cache import Cache
from firstlight_lab.limits import LIMITS, neighbours, nodes_of, raise_for, restore, watchers

USUAL = {
    "fs.inotify.max_user_instances": 128,
    "net.ipv4.neigh.default.gc_thresh2": 512,
    "net.ipv4.neigh.default.gc_thresh3": 1024,
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    made = Cache(tmp_path / "cache")
    monkeypatch.setattr(limits, "_memory", lambda _: tmp_path / "run" / "limits.json")
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The settings of a usual machine."""
    made = tmp_path / "sys"
    for limit in LIMITS:
        limit.file(made).parent.mkdir(parents=True, exist_ok=True)
        limit.file(made).write_text(f"{USUAL[limit.name]}\n")
    return made


def values(root: Path) -> dict[str, int]:
    return {limit.name: int(limit.file(root).read_text()) for limit in LIMITS}


def test_a_setting_that_is_not_to_be_seen_is_left_alone(cache: Cache, root: Path) -> None:
    LIMITS[1].file(root).unlink()
    raise_for(cache, 64, pytest.fail, root)
    assert LIMITS[0].file(root).read_text() == f"{watchers(64)}\n"
    restore(cache, root)
    assert not LIMITS[1].file(root).exists()


def test_a_lab_of_four_changes_nothing(cache: Cache, root: Path) -> None:
    raise_for(cache, 4, pytest.fail, root)
    assert values(root) == USUAL
    restore(cache, root)
    assert values(root) == USUAL


def test_sixty_four_nodes_have_room_for_all_their_neighbours(cache: Cache, root: Path) -> None:
    raise_for(cache, 64, pytest.fail, root)
    assert values(root) == {
        "fs.inotify.max_user_instances": watchers(64),
        "net.ipv4.neigh.default.gc_thresh2": neighbours(64),
        "net.ipv4.neigh.default.gc_thresh3": neighbours(64),
    }
    assert neighbours(64) > 64 * 63 * 2


def test_the_first_values_come_back_however_often_they_were_raised(cache: Cache, root: Path, tmp_path: Path) -> None:
    for nodes in (8, 24, 4):
        raise_for(cache, nodes, pytest.fail, root)
    assert values(root)["fs.inotify.max_user_instances"] == watchers(24)
    restore(cache, root)
    assert values(root) == USUAL
    assert not (tmp_path / "run").exists()


def test_what_somebody_set_since_is_left_alone(cache: Cache, root: Path) -> None:
    raise_for(cache, 64, pytest.fail, root)
    watched = LIMITS[0].file(root)
    watched.write_text("8192\n")
    restore(cache, root)
    assert values(root) == {**USUAL, "fs.inotify.max_user_instances": 8192}


def test_who_may_not_change_them_is_told_how_to(cache: Cache, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "write_text", refuse)
    said: list[str] = []
    raise_for(cache, 12, said.append, root)
    assert len(said) == 2, "of neighbours one limit has room for as many"
    assert said[0].startswith(
        "fs.inotify.max_user_instances is 128 and this user may not change it; 12 nodes need up to 256"
    )
    assert "sysctl -w fs.inotify.max_user_instances=256 as root" in said[0]


def test_the_nodes_of_all_labs_count(tmp_path: Path) -> None:
    for name, nodes in (("a", 2), ("b", 3)):
        (tmp_path / name).write_text(json.dumps({"nodes": [{}] * nodes}))
    assert nodes_of(tmp_path.iterdir()) == 5
