# SPDX-License-Identifier: Apache-2.0
"""The layer with Ray."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.image.derive import (
    ALONE,
    METRICS,
    SERVE,
    build_failure,
    build_words,
    dockerfile,
    has_more,
    layer_word,
    read_ray_lock,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import is_local_name, local_name

LOCK = f"ray==2.60.0 --hash=sha256:{'1' * 64}\n"


def test_an_image_from_the_index() -> None:
    text = dockerfile("firstlight/engine:sha256-1", "2.60.0")
    assert text.startswith("FROM firstlight/engine:sha256-1\nCOPY ray.lock /opt/ray.lock\nRUN if command -v uv")
    assert "USER" not in text
    assert "--index-url=https://i.example/simple --requirement /opt/ray.lock;" in dockerfile(
        "b", "2.60.0", index="https://i.example/simple"
    )


@pytest.mark.hostile
@pytest.mark.parametrize("wheels", [False, True])
def test_every_installer_takes_what_the_lock_has_by_its_hash_and_nothing_else(wheels: bool) -> None:
    installs = [line for line in dockerfile("b", "2.60.0", wheels=wheels).splitlines() if " install " in line]
    assert len(installs) == 3
    for line in installs:
        assert " --require-hashes --no-deps --only-binary=:all: " in line
        assert line.endswith(" --requirement /opt/ray.lock; \\")
        assert "ray==" not in line


def test_another_lock_or_kind_makes_another_image() -> None:
    words = [layer_word("2.60.0", kind, lock) for kind in (ALONE, METRICS, SERVE) for lock in (LOCK, LOCK + "# 2\n")]
    assert len({*words}) == len(words)
    assert [has_more(word) for word in words] == [False, False, True, True, True, True]
    for word in words:
        # A tag has 128 characters at most.
        name = local_name(f"vllm@sha256:{'1' * 64}", word)
        assert is_local_name(name)
        assert len(name.partition(":")[2]) <= 128
        assert read_ray_lock(word, LOCK).packages == {"ray": "2.60.0"}
        assert f"LABEL io.firstlight.ray={word}\n" in dockerfile("b", word)


def test_an_image_from_wheels() -> None:
    lines = dockerfile("b", "2.60.0", user="vllm", wheels=True, index="https://i.example").splitlines()
    assert lines[1:4] == ["USER root", "COPY ray.lock /opt/ray.lock", "COPY wheels/ /opt/firstlight-wheels/"]
    assert lines[-1] == "USER vllm"
    assert not any("i.example" in line for line in lines)
    assert sum("--no-index --find-links=/opt/firstlight-wheels --requirement" in line for line in lines) == 3


def test_a_failed_build_says_what_to_do() -> None:
    assert "reaches a package index" in build_failure("b", "2.60.0", "timeout", "")
    assert "/srv/wheels holds the wheels of the layer's lock" in build_failure("b", "2.60.0", "x", "/srv/wheels")


def test_what_the_installer_said_is_found() -> None:
    told = "Step 2\n\x1b[91mERROR: No matching distribution\n\x1b[0mThe command '/bin/sh -c error' returned 1\n"
    assert build_words(told) == "ERROR: No matching distribution"
    assert build_words("can't open file\nThe command x returned 2") == "can't open file"
    assert build_words("") == "docker printed nothing"
    by_buildkit = (
        "------\n > [2/2] RUN pip install ray:\n0.872 ERROR: No matching distribution found for ray\n------\n"
        'Dockerfile:2\nERROR: failed to solve: process "/bin/sh -c pip" did not complete successfully: exit code: 1\n'
    )
    assert build_words(by_buildkit) == "ERROR: No matching distribution found for ray"


def test_a_password_never_gets_into_an_image() -> None:
    with pytest.raises(ValueError, match="would stay in the image"):
        dockerfile("b", "2.60.0", index="https://me:secret@i.example/simple")
