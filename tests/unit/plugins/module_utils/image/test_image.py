# SPDX-License-Identifier: Apache-2.0
"""How an image is named and recorded, and how trouble with it is told."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import (
    DIGEST_TO_SUPPLY,
    has_digest,
    image_directory,
    is_local_name,
    local_name,
    needed_bytes,
    no_room,
    pull_failure,
    read_record,
    record_path,
    record_text,
    split_reference,
)
from hypothesis import given
from hypothesis import strategies as st

DIGEST = "sha256:" + "0f" * 32
REFERENCE = f"registry.example/vllm@{DIGEST}"
NAME = "firstlight/engine:sha256-" + "0f" * 32


def test_split_reference() -> None:
    assert split_reference(REFERENCE) == ("registry.example/vllm", DIGEST)


@pytest.mark.parametrize(
    "reference", ["", "vllm", "vllm:v0.32.0", "vllm@sha256:abc", f"@{DIGEST}", "vllm@md5:" + "0" * 64]
)
def test_a_reference_without_a_digest_is_refused(reference: str) -> None:
    with pytest.raises(ValueError, match="expected REPOSITORY@sha256"):
        split_reference(reference)


def test_the_name_says_the_digest_and_the_ray() -> None:
    assert local_name(REFERENCE) == NAME
    assert local_name(REFERENCE, "2.60.0") == f"{NAME}-ray-2.60.0"


@given(st.text("0123456789abcdef", min_size=64, max_size=64), st.sampled_from(["", "2.60.0", "2.9", "3.0.0rc1"]))
def test_every_name_is_known_as_one(hexadecimal: str, ray: str) -> None:
    name = local_name(f"r.example:5000/a/b@sha256:{hexadecimal}", ray)
    assert is_local_name(name)
    assert len(name.partition(":")[2]) <= 128
    assert not is_local_name(name + "-ray-")
    assert not is_local_name(name[:-1] if not ray else name.replace("sha256", "md5"))


@pytest.mark.parametrize("name", ["", "firstlight/engine", "firstlight/engine:latest", f"other:{NAME}", REFERENCE])
def test_other_names_are_not(name: str) -> None:
    assert not is_local_name(name)


@pytest.mark.parametrize("ray", ["2.60.0+x", "a b", "2.6/0", "ü"])
def test_a_strange_version_of_ray_is_refused(ray: str) -> None:
    with pytest.raises(ValueError, match=r"expected one like 2\.60\.0"):
        local_name(REFERENCE, ray)


def test_a_plan_may_wait_for_the_digest() -> None:
    assert is_local_name(local_name(f"vllm@{DIGEST_TO_SUPPLY}"))


def test_the_record_names_the_bytes() -> None:
    text = record_text(NAME, REFERENCE, "sha256:1", {"vllm": "0.32.0"})
    assert json.loads(text) == {
        "id": "sha256:1",
        "image": REFERENCE,
        "name": NAME,
        "requires": {"vllm": "0.32.0"},
    }
    assert read_record(text) == json.loads(text)
    assert record_path(NAME) == f"/var/lib/firstlight/images/sha256-{'0f' * 32}.json"


@pytest.mark.parametrize("text", [None, "", '{"id": "sha', "[]"])
def test_half_a_record_is_none(text: str | None) -> None:
    assert read_record(text) is None


def test_has_digest_ignores_how_docker_shortens_names() -> None:
    assert has_digest([f"vllm/vllm-openai@{DIGEST}"], DIGEST)
    assert not has_digest(["vllm/vllm-openai@sha256:" + "00" * 32], DIGEST)
    assert not has_digest([], DIGEST)


def test_room() -> None:
    assert no_room(REFERENCE, "/var/lib/docker", needed_bytes(10**10), 11 * 10**9) is None
    assert no_room(REFERENCE, "/var/lib/docker", needed_bytes(0), 0) is None
    refusal = no_room(REFERENCE, "/var/lib/docker", needed_bytes(10**10), 2 * 10**9)
    assert refusal is not None
    assert "needs 11.0 GB on /var/lib/docker, 2.0 GB are free" in refusal
    assert needed_bytes(10**10, archived=True) == 31 * 10**9


def test_a_full_disk_is_told_as_one() -> None:
    said = pull_failure(REFERENCE, "/var/lib/docker", "x\nwrite /a: no space left on device\n", 10**8)
    assert said.startswith("the disk became full while loading image")
    assert "0.1 GB are free on /var/lib/docker" in said


def test_other_trouble_is_told_in_dockers_words() -> None:
    said = pull_failure(REFERENCE, "/x", "Error: manifest unknown\n\n", 10**12)
    assert "cannot be pulled: Error: manifest unknown; check the reference" in said
    assert "docker printed nothing" in pull_failure(REFERENCE, "/x", "", 1)


@pytest.mark.parametrize(
    ("told", "place"),
    [
        ('/srv/docker\t[["Backing Filesystem","extfs"],["Supports d_type","true"]]\n', "/srv/docker"),
        ('/srv/docker\t[["driver-type","io.containerd.snapshotter.v1"]]\n', "/var/lib/containerd"),
        ("/srv/docker\n", "/srv/docker"),
        ("", "/var/lib/docker"),
    ],
)
def test_where_images_lie(told: str, place: str) -> None:
    assert image_directory(told) == place
