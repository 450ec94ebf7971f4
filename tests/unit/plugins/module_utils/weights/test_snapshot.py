# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import parse_record, verify_record

RECORD: dict[str, Any] = {
    "repository": "lab/tiny",
    "revision": "a" * 40,
    "files": {
        "config.json": {"size": 3, "mtime_ns": 5, "digest": "sha256:1"},
        "sub/model.safetensors": {"size": 9, "mtime_ns": 7, "digest": "sha256:2"},
    },
}
STATS = {"config.json": (3, 5), "sub/model.safetensors": (9, 7)}


def test_every_file_as_recorded_is_verified() -> None:
    assert verify_record(RECORD, STATS.get) == (True, "")


@pytest.mark.parametrize(
    ("path", "found", "reason"),
    [
        ("config.json", None, "config.json is missing"),
        ("config.json", (4, 5), "config.json has 4 bytes, expected 3"),
        ("sub/model.safetensors", (9, 8), "sub/model.safetensors was modified after it was verified"),
    ],
)
def test_a_changed_file_is_named(path: str, found: tuple[int, int] | None, reason: str) -> None:
    stats: dict[str, tuple[int, int] | None] = {**STATS, path: found}
    assert verify_record(RECORD, stats.get) == (False, reason)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "lists no files"),
        (None, "lists no files"),
        ({"../x": {"size": 1, "mtime_ns": 1, "digest": "d"}}, "outside the snapshot"),
        ({"/etc/passwd": {"size": 1, "mtime_ns": 1, "digest": "d"}}, "outside the snapshot"),
        ({"a": {"size": 1, "mtime_ns": 1}}, "no digest for a"),
        ({"a": None}, "no digest for a"),
    ],
)
def test_a_record_that_proves_nothing_verifies_nothing(files: Any, reason: str) -> None:
    verified, why = verify_record({**RECORD, "files": files}, lambda _path: (1, 1))
    assert not verified
    assert reason in why


def test_a_record_is_read_back() -> None:
    assert parse_record(json.dumps(RECORD)) == RECORD


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"files": {}}', '{"files": [], "repository": "a", "revision": "b"}']
)
def test_a_broken_record_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="snapshot record"):
        parse_record(text)


@pytest.mark.parametrize("out", [[], {"x": "7"}, "x"])
def test_a_record_that_left_out_nothing_readable_is_refused(out: object) -> None:
    text = json.dumps({"repository": "a/b", "revision": "c", "files": {}, "left_out": out})
    with pytest.raises(ValueError, match="left-out files"):
        parse_record(text)
