# SPDX-License-Identifier: Apache-2.0
"""Which image an archive holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.image.archive import (
    archive_contents,
    archive_ids,
    labelled_ids,
    more_in_archive,
    not_in_archive,
)


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def blob(document: Any) -> tuple[str, bytes]:
    data = json.dumps(document).encode()
    return digest(data), data


CONFIG = blob({"os": "linux"})
MANIFEST = blob({"config": {"digest": CONFIG[0]}, "layers": []})
INDEX = blob({"manifests": [{"digest": MANIFEST[0]}, {"digest": digest(b"of another platform")}]})


def reader(members: dict[str, bytes]) -> Callable[[str], bytes | None]:
    return members.get


def stored(*blobs: tuple[str, bytes]) -> dict[str, bytes]:
    return {f"blobs/{name.replace(':', '/')}": data for name, data in blobs}


def index(*tops: tuple[str, bytes]) -> bytes:
    return json.dumps({"manifests": [{"digest": one} for one, _ in tops]}).encode()


def layout(top: tuple[str, bytes], *below: tuple[str, bytes]) -> dict[str, bytes]:
    return {"index.json": index(top), **stored(top, *below)}


def saved(*configs: str) -> bytes:
    return json.dumps([{"Config": one, "RepoTags": ["x:1"]} for one in configs]).encode()


def nested(digest: str) -> list[tuple[str, bytes]]:
    found = [blob({"config": {"digest": digest}})]
    for _ in range(5):
        found.append(blob({"manifests": [{"digest": found[-1][0]}]}))
    return found


SAVED = {"manifest.json": saved("c.json"), "c.json": CONFIG[1]}
OTHER = blob({"os": "of a stranger"})
OF_OTHER = blob({"config": {"digest": OTHER[0]}})
BOTH = blob({"manifests": [{"digest": MANIFEST[0]}, {"digest": OF_OTHER[0]}]})


def test_what_docker_saved_is_known_by_the_images_id() -> None:
    assert archive_ids(reader(SAVED), CONFIG[0]) == ([CONFIG[0]], [])
    assert archive_ids(reader(SAVED), MANIFEST[0]) == ([], [CONFIG[0]])
    assert archive_contents(reader(SAVED)) == [CONFIG[0]]


def test_a_layout_is_known_by_each_of_its_digests() -> None:
    read = reader(layout(INDEX, MANIFEST, CONFIG))
    for pinned in (INDEX[0], MANIFEST[0], CONFIG[0]):
        assert archive_ids(read, pinned) == ([CONFIG[0], MANIFEST[0], INDEX[0]], [])
    assert archive_ids(reader(layout(MANIFEST, CONFIG)), MANIFEST[0]) == ([CONFIG[0], MANIFEST[0]], [])


def test_an_archive_with_both_lists_holds_one_image() -> None:
    read = reader({**SAVED, **layout(MANIFEST, CONFIG)})
    for pinned in (MANIFEST[0], CONFIG[0]):
        assert archive_ids(read, pinned) == ([CONFIG[0], MANIFEST[0]], [])


def test_all_platforms_of_a_pinned_index_belong_to_it() -> None:
    read = reader(layout(BOTH, MANIFEST, CONFIG, OF_OTHER, OTHER))
    assert archive_ids(read, BOTH[0]) == ([CONFIG[0], MANIFEST[0], BOTH[0], OTHER[0], OF_OTHER[0]], [])
    assert archive_ids(read, MANIFEST[0])[1] == [BOTH[0]]


@pytest.mark.hostile
@pytest.mark.parametrize(
    "members",
    [
        {**SAVED, "manifest.json": saved("c.json", "o.json"), "o.json": OTHER[1]},
        {**SAVED, **layout(OF_OTHER, OTHER)},
        {**layout(MANIFEST, CONFIG), "manifest.json": saved("o.json"), "o.json": OTHER[1]},
        {**layout(MANIFEST, CONFIG), "index.json": index(MANIFEST, OF_OTHER), **stored(OF_OTHER, OTHER)},
        {**SAVED, **layout(BOTH, MANIFEST, CONFIG, OF_OTHER, OTHER)},
    ],
)
def test_what_docker_would_load_beside_the_pinned_image_is_told(members: dict[str, bytes]) -> None:
    found, others = archive_ids(reader(members), CONFIG[0])
    assert found
    assert others


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({**SAVED, "manifest.json": b'[{"Config": "c.json", "config": "o.json"}]', "o.json": OTHER[1]}, "two ways"),
        ({**SAVED, "manifest.json": b'[{"Config": "c.json", "Config": "o.json"}]', "o.json": OTHER[1]}, "two ways"),
        ({**SAVED, "manifest.json": b'[{"Config": "c.json", "con\\ufb01g": "o.json"}]'}, "two ways"),
        ({**SAVED, "manifest.json": b'[{"CONFIG": "c.json"}]'}, "two ways"),
        ({**SAVED, "manifest.json": saved("c.json") + b"[]"}, "not JSON"),
        ({**SAVED, "manifest.json": b"[" * 100_000}, "not JSON"),
        ({**SAVED, "manifest.json": b'["x"]'}, "without a configuration"),
        ({**SAVED, "manifest.json": saved("gone")}, "without a configuration"),
        ({**SAVED, "index.json": b"{"}, "not JSON"),
        ({**SAVED, "index.json": b"[]"}, "lists no manifests"),
        ({**SAVED, "index.json": b'{"Manifests": []}'}, "two ways"),
        ({**SAVED, "index.json": index(MANIFEST)}, "is missing or has different bytes"),
        ({**SAVED, "index.json": index(("sha512:" + "0" * 128, b""))}, "something other than a SHA-256"),
        ({**SAVED, "index.json": b'{"manifests": ["x"]}'}, "something other than a SHA-256"),
        ({**SAVED, **layout(blob({"config": {}, "manifests": []}))}, "neither a manifest nor an index"),
        ({**SAVED, **layout(*reversed(nested(CONFIG[0])))}, "nests too deep"),
        ({**layout(MANIFEST, CONFIG), "repositories": b"{}"}, "nothing in this kind of archive can be compared"),
    ],
)
def test_what_docker_may_read_in_another_way_is_refused(members: dict[str, bytes], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        archive_ids(reader(members), CONFIG[0])


@pytest.mark.hostile
def test_a_digest_that_its_bytes_do_not_have_is_no_proof() -> None:
    members = layout(MANIFEST, CONFIG)
    members[f"blobs/{MANIFEST[0].replace(':', '/')}"] = blob({"config": {"digest": "sha256:other"}})[1]
    with pytest.raises(ValueError, match="has different bytes"):
        archive_ids(reader(members), MANIFEST[0])


def test_an_empty_archive_holds_nothing() -> None:
    for members in ({}, {"manifest.json": b"[]"}):
        assert archive_contents(reader(members)) == []


def test_the_message_names_what_is_there() -> None:
    said = not_in_archive("r@sha256:1", "/a.tar", ["sha256:2"])
    assert said.startswith("archive /a.tar holds sha256:2, expected sha256:1: save the pinned image")
    assert "and 1 more" in not_in_archive("r@sha256:1", "/a.tar", list("abcde"))
    assert "no image that can be read" in not_in_archive("r@sha256:1", "/a.tar", [])
    assert "holds sha256:2 besides sha256:1" in more_in_archive("r@sha256:1", "/a.tar", ["sha256:2"])


LABELLED = blob({"config": {"Labels": {"io.example.recipe": "1"}}})
OF_LABELLED = blob({"config": {"digest": LABELLED[0]}})


def test_a_built_image_is_known_by_its_label_however_it_was_saved() -> None:
    plain = {"manifest.json": saved("b.json"), "b.json": LABELLED[1]}
    assert labelled_ids(reader(plain), "io.example.recipe", "1") == ([LABELLED[0]], [])
    both = {**plain, **layout(OF_LABELLED, LABELLED)}
    assert labelled_ids(reader(both), "io.example.recipe", "1") == ([LABELLED[0], OF_LABELLED[0]], [])
    for read in (reader(plain), reader(both), reader(layout(MANIFEST, CONFIG)), reader({}), reader(SAVED)):
        assert labelled_ids(read, "io.example.recipe", "2")[0] == []


@pytest.mark.hostile
def test_what_comes_beside_a_built_image_is_told() -> None:
    plain = {"manifest.json": saved("a.json", "b.json"), "a.json": CONFIG[1], "b.json": LABELLED[1]}
    assert labelled_ids(reader(plain), "io.example.recipe", "1") == ([LABELLED[0]], [CONFIG[0]])


def test_a_label_that_is_not_in_the_bytes_of_its_digest_is_none() -> None:
    members = layout(OF_LABELLED, LABELLED)
    members[f"blobs/{LABELLED[0].replace(':', '/')}"] = blob({"config": {"Labels": {"io.example.recipe": "9"}}})[1]
    assert labelled_ids(reader(members), "io.example.recipe", "9")[0] == []
