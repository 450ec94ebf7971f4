# SPDX-License-Identifier: Apache-2.0
"""What a hub lists, and what of it is still to be fetched."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub import (
    Digester,
    RemoteFile,
    check_path,
    check_request,
    file_url,
    may_follow,
    next_page,
    parse_tree,
    retry_after,
    same_origin,
    to_fetch,
    tree_url,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TREE = [
    {"type": "directory", "oid": "a" * 40, "size": 0, "path": "original"},
    {"type": "file", "oid": "b" * 40, "size": 12, "path": "config.json"},
    {
        "type": "file",
        "oid": "c" * 40,
        "size": 3,
        "path": "original/model 1.safetensors",
        "lfs": {"oid": "d" * 64, "size": 5000000000, "pointerSize": 135},
    },
]


def test_parse_tree() -> None:
    assert parse_tree(json.dumps(TREE)) == [
        RemoteFile("config.json", 12, "git:" + "b" * 40),
        RemoteFile("original/model 1.safetensors", 5000000000, "sha256:" + "d" * 64),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>",
        "{}",
        '["x"]',
        '[{"type": "file", "path": "x", "size": 1}]',
        json.dumps([{"type": "file", "path": "x", "size": -1, "oid": "b" * 40}]),
        json.dumps([{"type": "file", "path": "../x", "size": 1, "oid": "b" * 40}]),
    ],
)
def test_other_lists_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|not JSON"):
        parse_tree(text)


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x", "a/../../x", "a//b", ".", "", "a\\b", ".firstlight-snapshot.json", ".firstlight-lock"],
)
def test_paths_that_leave_the_snapshot_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="refused"):
        check_path(path)


def test_urls() -> None:
    assert tree_url("https://hub.example/", "org/name", COMMIT) == (
        f"https://hub.example/api/models/org/name/tree/{COMMIT}?recursive=true"
    )
    assert file_url("https://hub.example", "org/name", COMMIT, "a b.txt") == (
        f"https://hub.example/org/name/resolve/{COMMIT}/a%20b.txt"
    )


@pytest.mark.parametrize(
    ("endpoint", "repository", "revision"),
    [
        ("hub.example", "org/name", COMMIT),
        ("file:///x", "org/name", COMMIT),
        ("https://hub.example", "name", COMMIT),
        ("https://hub.example", "org/../name", COMMIT),
        ("https://hub.example", "org/..", COMMIT),
        ("https://hub.example", "org/name", "main"),
    ],
)
def test_requests_that_pin_nothing_are_refused(endpoint: str, repository: str, revision: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        check_request(endpoint, repository, revision)


@pytest.mark.hostile
def test_a_hub_that_anybody_can_answer_for_needs_a_pin() -> None:
    with pytest.raises(ValueError, match=r"over http anyone on the path can alter the file list; use https, or pin"):
        check_request("http://hub.example", "org/name", COMMIT)
    check_request("http://hub.example", "org/name", COMMIT, plain=True)


@pytest.mark.hostile
def test_a_list_leads_nowhere_out_of_tls() -> None:
    assert may_follow("http://h/x", "http://h/")
    assert may_follow("https://h/x", "http://h/")
    assert not may_follow("http://h/x", "https://h/")
    assert not may_follow("file:///etc/passwd", "http://h/")
    with pytest.raises(ValueError, match="expected an address of the hub: refused"):
        next_page('<http://h/2>; rel="next"', "https://h/api/tree")


@pytest.mark.hostile
def test_a_list_that_is_nothing_but_brackets_is_refused() -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        parse_tree("[" * 200_000)


def test_next_page() -> None:
    here = "https://h/api/tree"
    assert next_page('<https://hub.example/x?cursor=a>; rel="next"', here) == "https://hub.example/x?cursor=a"
    assert next_page('<https://h/1>; rel="prev", <https://h/3>; rel="next"', here) == "https://h/3"
    assert next_page('</api/tree?cursor=b>; rel="next"', here) == "https://h/api/tree?cursor=b"
    assert next_page(None, here) is None
    assert next_page('<https://h/1>; rel="prev"', here) is None


@pytest.mark.parametrize("link", ["file:///etc/shadow", "ftp://h/list"])
def test_a_list_that_goes_on_elsewhere_than_on_the_web_is_refused(link: str) -> None:
    with pytest.raises(ValueError, match="refused"):
        next_page(f'<{link}>; rel="next"', "https://h/api/tree")


def test_same_origin() -> None:
    assert same_origin("https://hub.example/x", "https://hub.example")
    assert not same_origin("https://cdn.example/x", "https://hub.example")
    assert not same_origin("http://hub.example/x", "https://hub.example")


def test_digests_are_what_git_and_lfs_say() -> None:
    git = Digester("git:", 6)
    git.update(b"hel")
    git.update(b"lo\n")
    assert git.result() == "git:ce013625030ba8dba906f756967f9e9ca394464a"
    lfs = Digester("sha256:", 6)
    lfs.update(b"hello\n")
    assert lfs.result() == "sha256:" + hashlib.sha256(b"hello\n").hexdigest()
    with pytest.raises(ValueError, match="expected sha256"):
        Digester("md5:x", 1)


def test_to_fetch() -> None:
    files = [
        RemoteFile(name, 5, f"git:{name}") for name in ("absent", "short", "verified", "touched", "other", "unknown")
    ]
    present = {"short": (4, 1), "verified": (5, 1), "touched": (5, 2), "other": (5, 1), "unknown": (5, 1)}
    record = {
        "verified": {"digest": "git:verified", "size": 5, "mtime_ns": 1},
        "touched": {"digest": "git:touched", "size": 5, "mtime_ns": 1},
        "other": {"digest": "git:another", "size": 5, "mtime_ns": 1},
    }
    fetch, verify = to_fetch(files, present, record)
    assert [item.path for item in fetch] == ["absent", "short"]
    assert [item.path for item in verify] == ["touched", "other", "unknown"]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("3600", 60.0),
        ("Thu, 01 Jan 1970 00:16:50 GMT", 10.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("9" * 5000, 60.0),
        (None, None),
        ("", None),
        ("-5", None),
        ("soon", None),
        ("\u0663", None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, now=1000.0) == seconds


@pytest.mark.parametrize("entry", [{"path": "x", "size": "7"}, {"path": "x"}, {"path": "x", "size": -1}])
def test_a_file_that_a_node_left_out_has_a_size(entry: dict[str, Any]) -> None:
    (found,) = parse_tree(json.dumps([{"type": "left out", "path": "original/x.pth", "size": 7}]))
    assert (found.path, found.size, found.digest) == ("original/x.pth", 7, "")
    with pytest.raises(ValueError, match="expected a size"):
        parse_tree(json.dumps([{"type": "left out", **entry}]))
