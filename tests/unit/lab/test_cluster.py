# SPDX-License-Identifier: Apache-2.0
"""The end of the last lab on an engine that miscounts the endpoints of a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstlight_lab import cluster
from firstlight_lab.cache import Cache
from firstlight_lab.host import Engine
from firstlight_lab.shell import LabError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to an engine that lets its network go once it has been started again."""
    done: list[str] = []

    def remove(engine: Engine, lab: str | None = None) -> list[str]:
        done.append(f"remove {lab or 'all'}")
        return [] if "start" in done else ["firstlight-one"]

    def start(_: Cache) -> Engine:
        done.append("start")
        return Engine("unix:///x", private=True)

    monkeypatch.setattr(Engine, "docker", lambda *_, **__: "")
    monkeypatch.setattr(cluster, "remove", remove)
    monkeypatch.setattr(cluster, "start_private", start)
    monkeypatch.setattr(cluster, "stop_private", lambda *_: done.append("stop"))
    monkeypatch.setattr(cluster, "abandon", lambda *_: None)
    monkeypatch.setattr("firstlight_lab.limits.restore", lambda _: None)
    return done


def down(engine: Engine, root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(cluster, "engine_to_clean", lambda _: engine)
    cluster.Lab(Cache(root), "one", said.append).down()
    return said


def test_the_labs_own_engine_is_started_again(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = down(Engine("unix:///x", private=True), tmp_path, monkeypatch)
    assert asked == ["remove one", "remove all", "stop", "start", "remove all", "stop"]
    assert any("firstlight-one" in line for line in said)


def test_somebody_elses_engine_is_not(asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match=r"counts endpoints on firstlight-one that are gone.*Restart it"):
        down(Engine("unix:///x", private=False), tmp_path, monkeypatch)
    assert asked == ["remove one", "remove all"]
