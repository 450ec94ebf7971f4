# SPDX-License-Identifier: Apache-2.0
"""Records of directories that were made here, and the verification that reads every byte."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub import parse_tree
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import (
    RECORD_NAME,
    listing,
    parse_record,
    verify_record,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import (
    HubError,
    Meter,
    make_record,
    record_directory,
)
from ansible_collections.firstlight.cluster.plugins.modules import model_snapshot

REVISION = "a" * 40


@pytest.fixture
def verified(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "image.tar").write_bytes(b"layers")
    (tmp_path / "sub" / "more").write_bytes(b"")
    record_directory(str(tmp_path), "firstlight/image", REVISION)
    return tmp_path


def verify(directory: Path) -> list[str]:
    found = model_snapshot.verify(Host(), {"directory": str(directory), "workers": 2}, Meter())
    assert not found["changed"]
    return list(found["problems"])


def test_a_directory_that_was_made_here_gets_a_record(verified: Path) -> None:
    record = parse_record((verified / RECORD_NAME).read_text())
    digest = hashlib.sha256(b"layers").hexdigest()
    assert (record["repository"], record["revision"]) == ("firstlight/image", REVISION)
    assert record["files"]["image.tar"]["digest"] == f"sha256:{digest}"
    assert record["files"]["image.tar"]["sha256"] == digest
    assert sorted(record["files"]) == ["image.tar", "sub/more"]
    assert verify_record(record, lambda path: Host().size_and_mtime(str(verified / path))) == (True, "")


def test_a_directory_without_files_gets_none(tmp_path: Path) -> None:
    with pytest.raises(HubError, match="has no files"):
        record_directory(str(tmp_path), "firstlight/image", REVISION)


def test_a_record_is_listed_as_a_hub_lists_it() -> None:
    record = {
        "files": {
            "a": {"size": 3, "mtime_ns": 1, "digest": "git:" + "1" * 40, "sha256": "2" * 64},
            "b": {"size": 4, "mtime_ns": 1, "digest": "sha256:" + "3" * 64, "sha256": "3" * 64},
            "c": {"size": 5, "mtime_ns": 1, "digest": "git:" + "4" * 40},
        }
    }
    files = {item.path: item for item in parse_tree(json.dumps(listing(record)))}
    assert {path: (item.size, item.digest, item.sha256) for path, item in files.items()} == {
        "a": (3, "git:" + "1" * 40, "2" * 64),
        "b": (4, "sha256:" + "3" * 64, ""),
        "c": (5, "git:" + "4" * 40, ""),
    }


def test_a_list_with_a_strange_sha256_is_refused() -> None:
    entry = {"type": "file", "path": "a", "size": 1, "oid": "1" * 40, "sha256": "short"}
    with pytest.raises(ValueError, match="expected 64 digits"):
        parse_tree(json.dumps([entry]))


def test_a_byte_that_changed_without_a_trace_is_found(verified: Path) -> None:
    assert verify(verified) == []
    place = verified / "image.tar"
    before = place.stat().st_mtime_ns
    place.write_bytes(b"Layers")
    os.utime(place, ns=(before, before))
    (problem,) = verify(verified)
    assert problem.startswith("image.tar has sha256:")
    assert problem.endswith("as it was verified")
    place.unlink()
    assert verify(verified) == ["image.tar is missing"]


def test_what_was_never_verified_is_said(tmp_path: Path) -> None:
    assert verify(tmp_path) == [f"{tmp_path} has no record of verified files"]
    (tmp_path / RECORD_NAME).write_text("{")
    assert "is not JSON" in verify(tmp_path)[0]


def test_a_small_file_is_read_once_for_its_sha256(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"{}\n"
    (tmp_path / "config.json").write_bytes(data)
    git = hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()
    entry = {"type": "file", "path": "config.json", "size": len(data), "oid": git}
    files = parse_tree(json.dumps([entry]))
    record = make_record(Host(), str(tmp_path), "a/b", REVISION, files, {})
    assert record["files"]["config.json"]["sha256"] == hashlib.sha256(data).hexdigest()
    monkeypatch.setattr("builtins.open", None)
    assert make_record(Host(), str(tmp_path), "a/b", REVISION, files, record["files"]) == record


@pytest.mark.parametrize("entry", ["a text", {"digest": "sha256:" + "0" * 64}, {"size": "many", "digest": "x"}])
def test_a_record_that_was_tampered_with_is_a_problem_and_no_crash(verified: Path, entry: object) -> None:
    record = json.loads((verified / RECORD_NAME).read_text())
    record["files"]["image.tar"] = entry
    (verified / RECORD_NAME).write_text(json.dumps(record))
    (problem,) = verify(verified)
    assert "has a record that cannot be used" in problem


def test_a_record_with_a_path_outside_is_not_read(verified: Path) -> None:
    record = json.loads((verified / RECORD_NAME).read_text())
    record["files"]["../../etc/shadow"] = record["files"]["image.tar"]
    (verified / RECORD_NAME).write_text(json.dumps(record))
    (problem,) = verify(verified)
    assert "refused" in problem
