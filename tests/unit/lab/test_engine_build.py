# SPDX-License-Identifier: Apache-2.0
"""A build that is there is returned at once; one that is stale or damaged is not."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.file_selection import (
    check_selection,
    read_selection,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models import weights_files

from firstlight_lab import engine
from firstlight_lab.engine.registry import Blob, Store
from firstlight_lab.shell import LabError


def silent(_message: str) -> None:
    raise AssertionError("a cached build has nothing to say")


@pytest.fixture
def built(tmp_path: Path) -> engine.EngineArtifacts:
    """Leave behind what a build leaves behind, in small."""
    store = Store(tmp_path / "registry")

    def reference(tag: str) -> str:
        manifest: Blob = store.publish(engine.REPOSITORY, tag, [store.add_bytes(tag.encode())], {})
        return f"{engine.REGISTRY}/{engine.REPOSITORY}@{manifest.digest}"

    artifacts = engine.EngineArtifacts(
        image_reference=reference("1"),
        image_without_ray_reference=reference("1-no-ray"),
        image_size_bytes=1,
        vllm_version="1",
        ray_version="2",
        python_version="3.11",
        model_repository=engine.MODEL,
        model_revision="0" * 40,
    )
    model = tmp_path / "hub" / engine.MODEL / artifacts.model_revision
    model.mkdir(parents=True)
    (model / "tree.json").write_text("[]")
    state = {"inputs": engine._inputs(), "artifacts": dataclasses.asdict(artifacts)}
    (tmp_path / engine.STATE).write_text(json.dumps(state))
    return artifacts


def test_current_build_is_returned(built: engine.EngineArtifacts, tmp_path: Path) -> None:
    assert engine.build(tmp_path, silent) == built


@pytest.mark.parametrize("damage", ["inputs", "state", "blob", "model"])
def test_anything_else_is_built_again(
    built: engine.EngineArtifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    if damage == "inputs":
        monkeypatch.setattr(engine, "_inputs", lambda: "another lock")
    elif damage == "state":
        (tmp_path / engine.STATE).write_text('{"inputs": ')
    elif damage == "blob":
        Store(tmp_path / "registry").blob_path(built.image_reference.partition("@")[2]).unlink()
    else:
        shutil.rmtree(tmp_path / "hub")
    rebuilt = dataclasses.replace(built, image_size_bytes=2)
    monkeypatch.setattr(engine, "_build", lambda *_arguments: rebuilt)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert engine.build(tmp_path, silent) == rebuilt
    assert json.loads((tmp_path / engine.STATE).read_text())["artifacts"]["image_size_bytes"] == 2


def test_the_models_repository_has_its_weights_several_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(_: Path, shared: Path, argv: list[str]) -> str:
        (shared / "model").mkdir()
        for name in ("config.json", engine.WEIGHTS):
            (shared / "model" / name).write_text(name)
        return argv[0]

    monkeypatch.setattr(engine.rootfs, "inside", make)
    (tmp_path / "shared").mkdir()
    revision = engine._model(tmp_path, tmp_path / "rootfs", tmp_path / "shared")
    published = tmp_path / "hub" / engine.MODEL / revision
    listed = {item["path"]: item for item in json.loads((published / "tree.json").read_text())}
    assert set(listed) == {"config.json", engine.WEIGHTS, *engine.COPIES}
    assert {(published / path).read_text() for path in (engine.WEIGHTS, *engine.COPIES)} == {engine.WEIGHTS}
    assert all("lfs" in listed[path] for path in engine.COPIES)
    served = [path.name for path in (tmp_path / "shared/model").iterdir()]
    assert sorted(served) == ["config.json", engine.WEIGHTS], "the engine that proves the image needs none of them"


def test_the_rules_of_the_catalog_leave_the_other_copies_out() -> None:
    files = weights_files.selection(weights_files.load_rules(), "vllm", None, None)
    listed = ["config.json", engine.WEIGHTS, *engine.COPIES]
    assert check_selection(listed, read_selection(files)) == ["config.json", engine.WEIGHTS]


def test_building_without_root_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LabError, match="needs root"):
        engine.build(tmp_path, silent)
