# SPDX-License-Identifier: Apache-2.0
"""Which image an archive holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.image_archive import (
    archive_contents,
    archive_ids,
    labelled_ids,
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


def layout(top: tuple[str, bytes], *below: tuple[str, bytes]) -> dict[str, bytes]:
    return {"index.json": json.dumps({"manifests": [{"digest": top[0]}]}).encode(), **stored(top, *below)}


SAVED = {"manifest.json": json.dumps([{"Config": "c.json", "RepoTags": ["x:1"]}]).encode(), "c.json": CONFIG[1]}


def test_what_docker_saved_is_known_by_the_images_id() -> None:
    assert archive_ids(reader(SAVED), CONFIG[0]) == [CONFIG[0]]
    assert archive_ids(reader(SAVED), MANIFEST[0]) == []
    assert archive_contents(reader(SAVED)) == [CONFIG[0]]


def test_a_layout_is_known_by_each_of_its_digests() -> None:
    read = reader(layout(INDEX, MANIFEST, CONFIG))
    for pinned in (INDEX[0], MANIFEST[0], CONFIG[0]):
        assert archive_ids(read, pinned) == [CONFIG[0], MANIFEST[0], INDEX[0]]
    assert archive_ids(reader(layout(MANIFEST, CONFIG)), MANIFEST[0]) == [CONFIG[0], MANIFEST[0]]


def test_a_digest_that_its_bytes_do_not_have_is_no_proof() -> None:
    members = layout(MANIFEST, CONFIG)
    members[f"blobs/{MANIFEST[0].replace(':', '/')}"] = blob({"config": {"digest": "sha256:other"}})[1]
    assert archive_ids(reader(members), MANIFEST[0]) == []


def test_what_is_no_archive_holds_nothing() -> None:
    for members in ({}, {"index.json": b"{", "manifest.json": b"[]"}, {"manifest.json": b'["x", {"Config": "gone"}]'}):
        assert archive_contents(reader(members)) == []


def test_the_message_names_what_is_there() -> None:
    said = not_in_archive("r@sha256:1", "/a.tar", ["sha256:2"])
    assert said.startswith("archive /a.tar holds sha256:2, expected sha256:1: save the pinned image")
    assert "and 1 more" in not_in_archive("r@sha256:1", "/a.tar", list("abcde"))
    assert "no image that can be read" in not_in_archive("r@sha256:1", "/a.tar", [])


LABELLED = blob({"config": {"Labels": {"io.example.recipe": "1"}}})
OF_LABELLED = blob({"config": {"digest": LABELLED[0]}})


def test_a_built_image_is_known_by_its_label_however_it_was_saved() -> None:
    plain = {"manifest.json": json.dumps([{"Config": "a.json"}, {"Config": "b.json"}]).encode()}
    plain |= {"a.json": CONFIG[1], "b.json": LABELLED[1]}
    assert labelled_ids(reader(plain), "io.example.recipe", "1") == [LABELLED[0]]
    both = {**plain, **layout(OF_LABELLED, LABELLED)}
    assert labelled_ids(reader(both), "io.example.recipe", "1") == [LABELLED[0], OF_LABELLED[0]]
    for read in (reader(plain), reader(both), reader(layout(MANIFEST, CONFIG)), reader({}), reader(SAVED)):
        assert labelled_ids(read, "io.example.recipe", "2") == []


def test_a_label_that_is_not_in_the_bytes_of_its_digest_is_none() -> None:
    members = layout(OF_LABELLED, LABELLED)
    members[f"blobs/{LABELLED[0].replace(':', '/')}"] = blob({"config": {"Labels": {"io.example.recipe": "9"}}})[1]
    assert labelled_ids(reader(members), "io.example.recipe", "9") == []
