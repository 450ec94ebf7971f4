# SPDX-License-Identifier: Apache-2.0
"""The layer with Ray."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.image import is_local_name, local_name
from ansible_collections.firstlight.cluster.plugins.module_utils.core.image_derive import (
    build_failure,
    build_words,
    dockerfile,
    requirements,
    with_serve,
)


def test_an_image_from_the_index() -> None:
    text = dockerfile("firstlight/engine:sha256-1", "2.60.0")
    assert text.startswith("FROM firstlight/engine:sha256-1\nRUN if command -v uv")
    assert 'uv pip install --python "$(command -v python3)" --break-system-packages --no-cache ray==2.60.0;' in text
    assert "USER" not in text
    assert "COPY" not in text
    assert "--index-url=https://i.example/simple ray==2.60.0" in dockerfile(
        "b", "2.60.0", index="https://i.example/simple"
    )


def test_ray_serve_comes_with_what_it_imports_and_without_another_engine() -> None:
    ray = with_serve("2.60.0", {"pyarrow": "26.0.1", "httpx": "0.28.1"})
    assert ray == "2.60.0_serve_httpx_0.28.1_pyarrow_26.0.1"
    text = dockerfile("b", ray)
    assert "--no-cache-dir 'ray[serve]==2.60.0' httpx==0.28.1 pyarrow==26.0.1;" in text
    assert "llm" not in text
    assert f"LABEL io.firstlight.ray={ray}\n" in text
    # A tag has 128 characters at most.
    name = local_name(f"vllm@sha256:{'1' * 64}", ray)
    assert is_local_name(name)
    assert len(name.partition(":")[2]) <= 128


@pytest.mark.parametrize("ray", ["2.60.0_serve", "2.60.0_serve_httpx", "2.60.0_serve__1", "2.60.0_serve_httpx_"])
def test_nothing_is_installed_without_a_version(ray: str) -> None:
    with pytest.raises(ValueError, match=r"pin what Ray Serve needs in the stack \(ray.serve\)"):
        requirements(ray)


def test_ray_comes_with_all_that_its_agent_needs() -> None:
    text = dockerfile("b", "2.60.0_metrics")
    assert "--no-cache-dir 'ray[default]==2.60.0';" in text
    assert "LABEL io.firstlight.ray=2.60.0_metrics\n" in text


def test_an_image_from_wheels() -> None:
    lines = dockerfile("b", "2.60.0", user="vllm", wheels=True, index="https://i.example").splitlines()
    assert lines[1:3] == ["USER root", "COPY wheels/ /opt/firstlight-wheels/"]
    assert lines[-1] == "USER vllm"
    assert not any("i.example" in line for line in lines)
    assert sum("--no-index --find-links=/opt/firstlight-wheels ray==2.60.0" in line for line in lines) == 3


def test_a_failed_build_says_what_to_do() -> None:
    assert "reaches a package index" in build_failure("b", "2.60.0", "timeout", "")
    assert "/srv/wheels holds the wheels of ray==2.60.0" in build_failure("b", "2.60.0", "x", "/srv/wheels")


def test_what_the_installer_said_is_found() -> None:
    told = "Step 2\n\x1b[91mERROR: No matching distribution\n\x1b[0mThe command '/bin/sh -c error' returned 1\n"
    assert build_words(told) == "ERROR: No matching distribution"
    assert build_words("can't open file\nThe command x returned 2") == "can't open file"
    assert build_words("") == "docker said nothing"
    by_buildkit = (
        "------\n > [2/2] RUN pip install ray:\n0.872 ERROR: No matching distribution found for ray\n------\n"
        'Dockerfile:2\nERROR: failed to solve: process "/bin/sh -c pip" did not complete successfully: exit code: 1\n'
    )
    assert build_words(by_buildkit) == "ERROR: No matching distribution found for ray"


def test_a_password_never_gets_into_an_image() -> None:
    with pytest.raises(ValueError, match="would stay in the image"):
        dockerfile("b", "2.60.0", index="https://me:secret@i.example/simple")
