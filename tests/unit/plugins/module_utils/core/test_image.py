# SPDX-License-Identifier: Apache-2.0
"""What an image must contain, and how a failed download is told."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.image import (
    INSPECT_SCRIPT,
    content_problems,
    has_digest,
    no_room,
    pull_failure,
    same_version,
    split_reference,
)

DIGEST = "sha256:" + "0f" * 32
REFERENCE = f"registry.example/vllm@{DIGEST}"


def test_split_reference() -> None:
    assert split_reference(REFERENCE) == ("registry.example/vllm", DIGEST)


@pytest.mark.parametrize(
    "reference", ["", "vllm", "vllm:v0.32.0", "vllm@sha256:abc", f"@{DIGEST}", "vllm@md5:" + "0" * 64]
)
def test_a_reference_without_a_digest_is_refused(reference: str) -> None:
    with pytest.raises(ValueError, match="expected REPOSITORY@sha256"):
        split_reference(reference)


def test_has_digest_ignores_how_docker_shortens_names() -> None:
    assert has_digest([f"vllm/vllm-openai@{DIGEST}"], DIGEST)
    assert not has_digest(["vllm/vllm-openai@sha256:" + "00" * 32], DIGEST)
    assert not has_digest([], DIGEST)


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        ("0.32.0", "0.32.0", True),
        ("0.32.0+cu130", "0.32.0", True),
        ("0.32.0", "0.32.0+cu130", False),
        ("0.32.1", "0.32.0", False),
        ("0.32.0rc1", "0.32.0", False),
    ],
)
def test_same_version(found: str, expected: str, same: bool) -> None:
    assert same_version(found, expected) is same


def test_an_image_without_ray_is_explained() -> None:
    problems = content_problems(REFERENCE, {"vllm": "0.32.0", "ray": None}, {"vllm": "0.32.0", "ray": "2.60.0"})
    assert len(problems) == 1
    assert problems[0].startswith(
        f"image {REFERENCE} has no ray (vLLM images from 0.18 on ship without it); expected ray 2.60.0; "
        "use an image with Ray added, e.g. a derived image"
    )


def test_other_versions_are_all_named() -> None:
    problems = content_problems(REFERENCE, {"vllm": "0.31.0"}, {"vllm": "0.32.0", "torch": "2.13.0"})
    assert "has no torch; expected torch 2.13.0" in problems[0]
    assert "has vllm 0.31.0; expected vllm 0.32.0" in problems[1]


def test_no_room() -> None:
    assert no_room(REFERENCE, "/var/lib/docker", 0, 0) is None
    assert no_room(REFERENCE, "/var/lib/docker", 10_000_000_000, 11_000_000_000) is None
    refusal = no_room(REFERENCE, "/var/lib/docker", 10_000_000_000, 2_000_000_000)
    assert refusal is not None
    assert "needs 11.0 GB on /var/lib/docker, 2.0 GB are free" in refusal


def test_a_full_disk_is_told_as_one() -> None:
    output = "failed to register layer: write /usr/lib/libtorch.so: no space left on device"
    message = pull_failure(REFERENCE, "/var/lib/docker", output, 12_000_000)
    assert "the disk became full while loading image" in message
    assert "nothing half-loaded is used" in message
    assert "docker image prune" in message


def test_another_failed_pull_has_dockers_words() -> None:
    message = pull_failure(REFERENCE, "/x", "Trying\nError response from daemon: manifest unknown\n", 0)
    assert "cannot be pulled: Error response from daemon: manifest unknown" in message


def test_inspect_script_runs_on_any_python() -> None:
    argv = [sys.executable, "-c", INSPECT_SCRIPT, "pytest", "no-such-distribution"]
    found = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    assert found == {"pytest": pytest.__version__, "no-such-distribution": None}
