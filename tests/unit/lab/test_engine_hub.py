# SPDX-License-Identifier: Apache-2.0
"""The hub's listing must be what git and git LFS would say of the same files: the product verifies against it."""

from __future__ import annotations

import hashlib
import http.client
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from firstlight_lab.engine import hub
from firstlight_lab.images import equipment

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_git_names_of_known_content() -> None:
    # `git hash-object` of the same bytes
    assert hub.git_blob(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert hub.git_blob(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_small_file_is_named_by_its_git_blob() -> None:
    assert hub.entry("config.json", b"hello\n") == {
        "type": "file",
        "oid": "ce013625030ba8dba906f756967f9e9ca394464a",
        "size": 6,
        "path": "config.json",
    }


def test_weights_are_named_by_their_lfs_pointer() -> None:
    data = b"\x00" * 1000
    sha256 = hashlib.sha256(data).hexdigest()
    found = hub.entry("model.safetensors", data)
    pointer = hub.lfs_pointer(sha256, 1000)
    assert found == {
        "type": "file",
        "oid": hub.git_blob(pointer),
        "size": 1000,
        "lfs": {"oid": sha256, "size": 1000, "pointerSize": len(pointer)},
        "path": "model.safetensors",
    }
    assert pointer.splitlines()[1:] == [f"oid sha256:{sha256}".encode(), b"size 1000"]


def test_listing_is_sorted_and_leaves_its_own_index_out(tmp_path: Path) -> None:
    (tmp_path / "original").mkdir()
    for name in ("tokenizer.json", "config.json", hub.INDEX, "original/params.json"):
        (tmp_path / name).write_text(name)
    assert [item["path"] for item in hub.listing(tmp_path)] == ["config.json", "original/params.json", "tokenizer.json"]


def test_revision_is_the_git_tree_and_follows_the_content() -> None:
    one = [hub.entry("a", b"hello\n")]
    # `git write-tree` of one file "a" with that content
    assert hub.revision(one) == "0976950c1fdbcb52435a433913017bf044b3a58f"
    assert hub.revision([hub.entry("a", b"hello!\n")]) != hub.revision(one)
    two = [hub.entry("a", b"1"), hub.entry("b", b"2")]
    assert hub.revision(two) == hub.revision(reversed(two))


@pytest.mark.parametrize(
    ("name", "token", "status"),
    [
        ("lab/tiny", "", 200),
        ("lab/tiny-gated", "", 401),
        ("lab/tiny-gated", "of-somebody-else", 403),
        ("lab/tiny-gated", "lab-hub-token", 200),
    ],
)
def test_the_hub_hands_a_gated_model_to_who_has_the_token(tmp_path: Path, name: str, token: str, status: int) -> None:
    module = ModuleType("services")
    exec(compile(equipment("services.py"), "services.py", "exec"), module.__dict__)
    module.__dict__["HUB"] = tmp_path
    (tmp_path / "lab" / "tiny" / COMMIT).mkdir(parents=True)
    (tmp_path / "lab" / "tiny" / COMMIT / "config.json").write_text("{}")
    (tmp_path / "lab" / "tiny" / COMMIT / "tree.json").write_text("[]")
    with ThreadingHTTPServer(("127.0.0.1", 0), module.HubHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        asked = {f"/{name}/resolve/{COMMIT}/config.json": status, f"/api/models/{name}/tree/{COMMIT}": 200}
        for path, expected in asked.items():
            for method in ("HEAD", "GET"):
                connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
                connection.request(method, path, headers=sent)
                assert connection.getresponse().status == expected
                connection.close()
        server.shutdown()
