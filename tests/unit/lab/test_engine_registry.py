# SPDX-License-Identifier: Apache-2.0
"""The image must lie on disk exactly as the reference registry would have stored it, and as Docker would pull it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from firstlight_lab.engine.registry import (
    CONFIG_TYPE,
    EPOCH,
    LAYER_TYPE,
    MANIFEST_TYPE,
    Blob,
    Store,
    layer_of,
    whiteouts,
)


def entries(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    assert len({member.name for member in members}) == len(members), "a path occurs twice in the layer"
    return {member.name: member for member in members}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "rootfs"
    package = made / "usr/lib/pkg"
    package.mkdir(parents=True)
    (package / "module.py").write_text("x = 1\n")
    (package / "link.py").symlink_to("module.py")
    (made / "usr/bin").mkdir()
    program = made / "usr/bin/tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (made / "usr/lib/other").mkdir()
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "registry")


def test_blob_lies_under_its_digest(store: Store, tmp_path: Path) -> None:
    blob = store.add_bytes(b"hello")
    digest = hashlib.sha256(b"hello").hexdigest()
    assert blob == Blob(f"sha256:{digest}", 5)
    expected = tmp_path / "registry/docker/registry/v2/blobs/sha256" / digest[:2] / digest / "data"
    assert expected.read_bytes() == b"hello"


def test_failed_writer_leaves_nothing(store: Store, tmp_path: Path) -> None:
    def fail(_sink: object) -> None:
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        store.add_stream(fail)
    assert [path for path in (tmp_path / "registry").rglob("*") if path.is_file()] == []


def test_manifest_and_links(store: Store, tmp_path: Path) -> None:
    layers = [store.add_bytes(b"one"), store.add_bytes(b"two")]
    manifest = store.publish("firstlight/engine", "1.0", layers, {"architecture": "amd64", "os": "linux"})
    content = json.loads(store.blob_path(manifest.digest).read_bytes())
    assert content["schemaVersion"] == 2
    assert content["mediaType"] == MANIFEST_TYPE
    assert content["layers"] == [layer.describe(LAYER_TYPE) for layer in layers]
    assert content["config"]["mediaType"] == CONFIG_TYPE
    config = json.loads(store.blob_path(content["config"]["digest"]).read_bytes())
    assert config["rootfs"] == {"type": "layers", "diff_ids": [layer.digest for layer in layers]}
    assert config["architecture"] == "amd64"

    base = tmp_path / "registry/docker/registry/v2/repositories/firstlight/engine"
    links = {str(path.parent.relative_to(base)): path.read_text() for path in base.rglob("link")}
    value = manifest.digest.removeprefix("sha256:")
    expected = {
        f"_manifests/revisions/sha256/{value}": manifest.digest,
        f"_manifests/tags/1.0/index/sha256/{value}": manifest.digest,
        "_manifests/tags/1.0/current": manifest.digest,
    }
    for digest in (content["config"]["digest"], *(layer.digest for layer in layers)):
        expected[f"_layers/sha256/{digest.removeprefix('sha256:')}"] = digest
    assert links == expected


def test_same_content_has_the_same_digest(root: Path, store: Store, tmp_path: Path) -> None:
    first = store.add_stream(layer_of(root, ["usr/lib/pkg", "usr/bin/tool"]))
    for path in root.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    again = Store(tmp_path / "elsewhere").add_stream(layer_of(root, ["usr/bin/tool", "usr/lib/pkg"]))
    assert again == first


def test_layer_holds_the_paths_their_parents_and_nothing_else(root: Path, store: Store) -> None:
    layer = store.add_stream(layer_of(root, ["usr/lib/pkg", "usr/bin/tool"]))
    found = entries(store.blob_path(layer.digest))
    assert list(found) == [
        "usr",
        "usr/bin",
        "usr/bin/tool",
        "usr/lib",
        "usr/lib/pkg",
        "usr/lib/pkg/link.py",
        "usr/lib/pkg/module.py",
    ]
    assert found["usr/bin/tool"].mode == 0o755
    assert found["usr/lib/pkg/link.py"].issym()
    assert {(item.uid, item.gid, item.mtime) for item in found.values()} == {(0, 0, EPOCH)}


def test_whiteouts_name_what_goes_away(store: Store) -> None:
    layer = store.add_stream(whiteouts(["usr/lib/pkg/ray", "usr/bin/ray"]))
    found = entries(store.blob_path(layer.digest))
    assert list(found) == ["usr/bin/.wh.ray", "usr/lib/pkg/.wh.ray"]
    assert all(item.isreg() and item.size == 0 for item in found.values())


def test_image_counts_as_held_only_when_complete(store: Store) -> None:
    layer = store.add_bytes(b"layer")
    manifest = store.publish("a/b", "1", [layer], {})
    assert store.holds("a/b", manifest.digest)
    assert not store.holds("a/other", manifest.digest)
    assert not store.holds("a/b", "sha256:" + "0" * 64)
    store.blob_path(layer.digest).write_bytes(b"lay")
    assert not store.holds("a/b", manifest.digest)


def test_rebuilding_forgets_the_old_image_and_keeps_shared_layers(store: Store) -> None:
    shared, old = store.add_bytes(b"shared"), store.add_bytes(b"old")
    stale = store.publish("a/b", "1", [shared, old], {"os": "linux"})
    foreign = store.publish("x/y", "1", [store.add_bytes(b"foreign")], {})
    current = store.publish("a/b", "1", [shared], {"os": "linux"})
    store.keep_only("a/b", [current])
    assert store.holds("a/b", current.digest)
    assert store.holds("x/y", foreign.digest)
    assert not store.holds("a/b", stale.digest)
    assert not store.blob_path(old.digest).exists()


def test_layers_are_given_lowest_first(store: Store) -> None:
    blobs = [store.add_bytes(b"low"), store.add_bytes(b"high")]
    manifest = store.publish("a/b", "1", blobs, {})
    assert [path.read_bytes() for path in store.layers(manifest.digest)] == [b"low", b"high"]


def test_layer_is_a_plain_tar(root: Path, store: Store) -> None:
    layer = store.add_stream(layer_of(root, ["usr/bin"]))
    data = store.blob_path(layer.digest).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        assert archive.getnames() == ["usr", "usr/bin", "usr/bin/tool"]
