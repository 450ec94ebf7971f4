# SPDX-License-Identifier: Apache-2.0
"""A model out of a directory: plain, verified before, or a Hugging Face cache, whole or not."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.weights import directory_source
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.directory_source import DirectorySource
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.file_selection import read_selection
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import RECORD_NAME, parse_record
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import (
    HubError,
    record_directory,
    take_in,
)
from ansible_collections.firstlight.cluster.plugins.modules import model_snapshot

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40
CONFIG = b'{"model_type": "x"}\n'


def shard(size: int) -> bytes:
    header = json.dumps({"t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(range(256)) * (size // 256)


FILES = {
    "config.json": CONFIG,
    "model.safetensors.index.json": json.dumps({"weight_map": {"t": "model-1.safetensors"}}).encode(),
    "model-1.safetensors": shard(512),
}


def digest(name: str, data: bytes) -> str:
    if name.endswith(".safetensors"):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    directory = tmp_path / "plain"
    directory.mkdir()
    for name, data in FILES.items():
        (directory / name).write_bytes(data)
    return directory


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The model's directory in a Hugging Face cache below `home`."""
    model = tmp_path / "home" / "hub" / "models--example--tiny"
    snapshot = model / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (model / "blobs").mkdir()
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(COMMIT)
    for name, data in FILES.items():
        (model / "blobs" / digest(name, data)).write_bytes(data)
        (snapshot / name).symlink_to(Path("..") / ".." / "blobs" / digest(name, data))
    return model


def bring(source: Path, directory: Path, check_mode: bool = False) -> tuple[dict[str, Any], list[str]]:
    found = DirectorySource(str(source), "example/tiny", COMMIT)
    parameters = {"repository": "example/tiny", "revision": COMMIT, "directory": str(directory), "workers": 2}
    return model_snapshot.converge(Host(), found, parameters, check_mode), found.notes


SELECTION = {
    "formats": [{"name": "safetensors", "files": ["*.safetensors"]}],
    "weights": ["*.pth", "*.bin"],
    "exclude": ["original/*"],
}


def bring_some(source: Path, directory: Path) -> tuple[dict[str, Any], list[str]]:
    found = DirectorySource(str(source), "example/tiny", COMMIT, read_selection(SELECTION))
    parameters = {"repository": "example/tiny", "revision": COMMIT, "directory": str(directory), "workers": 2}
    return model_snapshot.converge(Host(), found, {**parameters, "files": SELECTION}, False), found.notes


def test_copies_for_other_programs_are_neither_read_nor_missed(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plain / "original").mkdir()
    (plain / "original" / "consolidated.00.pth").write_bytes(b"x" * 100)
    # An index whose shards were not downloaded, as `hf download --exclude "*.bin"` leaves it.
    (plain / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"t": "pytorch_model-1.bin"}}))
    (plain / "pytorch_model-2.bin").write_bytes(b"y")
    read: list[str] = []

    def noted(path: str, *more: Any) -> int:
        read.append(Path(path).name)
        return take_in(path, *more)

    monkeypatch.setattr(directory_source, "take_in", noted)
    result, notes = bring_some(plain, tmp_path / "to")
    assert result["fetched"] == sorted(FILES)
    assert result["left_out"] == [
        "original/consolidated.00.pth",
        "pytorch_model-2.bin",
        "pytorch_model.bin.index.json",
    ]
    assert sorted(read) == sorted(FILES)
    assert "3 of 3 files" in notes[0]


def test_a_directory_of_ours_may_lack_what_nobody_loads(plain: Path, tmp_path: Path) -> None:
    """Its record is of a time when every file was brought; the copy was made without them."""
    (plain / "original").mkdir()
    (plain / "original" / "consolidated.00.pth").write_bytes(b"x" * 100)
    record_directory(str(plain), "example/tiny", COMMIT)
    shutil.rmtree(plain / "original")
    with pytest.raises(HubError, match=r"lacks original/consolidated.00.pth, which its record names"):
        bring(plain, tmp_path / "all")
    assert bring_some(plain, tmp_path / "some")[0]["fetched"] == sorted(FILES)


def test_a_directory_without_weights_of_the_engine_is_refused(plain: Path, tmp_path: Path) -> None:
    for name in ("model-1.safetensors", "model.safetensors.index.json"):
        (plain / name).unlink()
    (plain / "model.bin").write_bytes(b"y")
    with pytest.raises(HubError, match=r"plain: the engine loads none of its weights \(model.bin\)"):
        bring_some(plain, tmp_path / "to")


@pytest.mark.parametrize("where", ["home", "home/hub", "model", "snapshot"])
def test_a_cache_is_found_and_verified_by_its_own_names(cache: Path, tmp_path: Path, where: str) -> None:
    named = {"model": cache, "snapshot": cache / "snapshots" / COMMIT}
    result, notes = bring(named.get(where, tmp_path / where), tmp_path / "to")
    assert result["fetched"] == sorted(FILES)
    assert notes == []
    record = parse_record((tmp_path / "to" / RECORD_NAME).read_text())
    assert record["files"]["config.json"]["digest"] == f"git:{digest('config.json', CONFIG)}"
    assert record["files"]["config.json"]["sha256"] == hashlib.sha256(CONFIG).hexdigest()
    for name, data in FILES.items():
        assert (tmp_path / "to" / name).read_bytes() == data
        assert not (tmp_path / "to" / name).is_symlink()
    assert not bring(cache, tmp_path / "to")[0]["changed"]


def test_a_blob_that_is_damaged_is_named(cache: Path, tmp_path: Path) -> None:
    name = "model-1.safetensors"
    blob = cache / "blobs" / digest(name, FILES[name])
    blob.write_bytes(FILES[name][:-1] + b"X")
    with pytest.raises(HubError, match=r"model-1.safetensors has sha256:.*, expected sha256:.*damaged"):
        bring(cache, tmp_path / "to")
    assert not (tmp_path / "to" / name).exists()


def test_links_that_lead_nowhere_are_named(cache: Path, tmp_path: Path) -> None:
    (cache / "blobs" / digest("config.json", CONFIG)).unlink()
    with pytest.raises(HubError, match=r"dangling links: config.json -> ../../blobs/"):
        bring(cache, tmp_path / "to")


def test_a_commit_that_only_a_ref_names_was_not_downloaded(cache: Path, tmp_path: Path) -> None:
    shutil.move(cache / "snapshots" / COMMIT, cache / "snapshots" / OTHER)
    with pytest.raises(HubError, match=rf"no snapshot of {COMMIT} \(refs/main names it, so .*there: {OTHER}\)"):
        bring(cache, tmp_path / "to")
    (cache / "refs" / "main").write_text(OTHER)
    with pytest.raises(HubError, match="no ref names it"):
        bring(cache, tmp_path / "to")
    with pytest.raises(HubError, match="snapshot of another commit"):
        bring(cache / "snapshots" / OTHER, tmp_path / "to")


def test_a_ref_that_leads_nowhere_is_noted(cache: Path, tmp_path: Path) -> None:
    (cache / "refs" / "main").write_text(OTHER)
    result, notes = bring(cache, tmp_path / "to")
    assert result["changed"]
    assert len(notes) == 1
    assert f"refs/main names {OTHER}" in notes[0]


def test_a_plain_directory_is_taken_as_it_is(plain: Path, tmp_path: Path) -> None:
    (plain / ".git").mkdir()
    (plain / ".git" / "config").write_text("x")
    (plain / "model-1.safetensors.partial").write_text("x")
    told, _ = bring(plain, tmp_path / "to", check_mode=True)
    assert told["fetched"] == sorted(FILES)
    assert not (tmp_path / "to").exists()
    result, notes = bring(plain, tmp_path / "to")
    assert result["fetched"] == sorted(FILES)
    assert "does not record what the hub lists for 3 of 3 files" in notes[0]


def test_a_plain_directory_may_be_the_place_itself(plain: Path) -> None:
    result, _ = bring(plain, plain)
    assert result["fetched"] == []
    assert (plain / RECORD_NAME).exists()
    assert not bring(plain, plain)[0]["changed"]


def test_what_a_download_left_behind_is_believed(plain: Path, tmp_path: Path) -> None:
    metadata = plain / ".cache" / "huggingface" / "download"
    metadata.mkdir(parents=True)
    for name, data in FILES.items():
        (metadata / f"{name}.metadata").write_text(f"{COMMIT}\n{digest(name, data)}\n1700000000.0\n")
    _, notes = bring(plain, tmp_path / "to")
    assert notes == []
    (metadata / "config.json.metadata").write_text(f"{OTHER}\n{digest('config.json', CONFIG)}\n1\n")
    with pytest.raises(HubError, match=rf"config.json is of commit {OTHER}, expected {COMMIT}"):
        bring(plain, tmp_path / "to")


def test_a_directory_that_was_verified_says_its_digests(plain: Path, tmp_path: Path) -> None:
    record_directory(str(plain), "example/tiny", COMMIT)
    _, notes = bring(plain, tmp_path / "to")
    assert notes == []
    with open(plain / "model-1.safetensors", "r+b") as stream:
        stream.seek(200)
        stream.write(b"XX")
    with pytest.raises(HubError, match=r"model-1.safetensors has .*damaged"):
        bring(plain, tmp_path / "again")
    (plain / "config.json").rename(plain / "other.json")
    with pytest.raises(HubError, match=r"lacks config.json, which its record names"):
        bring(plain, tmp_path / "again")


def test_a_record_of_another_revision_is_refused(plain: Path, tmp_path: Path) -> None:
    record_directory(str(plain), "example/tiny", OTHER)
    with pytest.raises(HubError, match=f"is of example/tiny at {OTHER}, expected example/tiny at {COMMIT}"):
        bring(plain, tmp_path / "to")


def test_a_model_that_is_not_complete_is_refused(plain: Path, tmp_path: Path) -> None:
    os.truncate(plain / "model-1.safetensors", 300)
    with pytest.raises(HubError, match=r"model-1.safetensors is damaged \(it has 300 bytes, its header asks for"):
        bring(plain, tmp_path / "to")
    (plain / "model-1.safetensors").rename(plain / "model-2.bin")
    with pytest.raises(HubError, match=r"lacks model-1.safetensors, which model.safetensors.index.json names"):
        bring(plain, tmp_path / "to")
    (plain / "config.json").unlink()
    with pytest.raises(HubError, match=r"no config.json with weights beside it"):
        bring(plain, tmp_path / "to")
    with pytest.raises(HubError, match="is not a directory on this node"):
        bring(plain / "absent", tmp_path / "to")


def test_a_copy_that_was_cut_is_resumed(plain: Path, tmp_path: Path) -> None:
    name = "model-1.safetensors"
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / f"{name}.partial").write_bytes(FILES[name][:100])
    (tmp_path / "to" / "config.json.partial").write_bytes(b"something else")
    bring(plain, tmp_path / "to")
    assert (tmp_path / "to" / name).read_bytes() == FILES[name]
    assert (tmp_path / "to" / "config.json").read_bytes() == CONFIG
