# SPDX-License-Identifier: Apache-2.0
"""Files of sources and preferences that others wrote."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_moves import concerning
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt import (
    Pin,
    Source,
    parse_preferences,
    parse_sources,
)

CUDA = "https://developer.example/cuda/repos/ubuntu2404/x86_64"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
DEB822 = f"""\
Types: deb
URIs: {CUDA}
Suites: ./
Signed-By: {KEYRING}

Types: deb
URIs: http://a http://b
Suites: x y

Enabled: no
URIs: http://c
Suites: z
"""
PINS = """\
# Written by the vendor's package
Package: nsight-compute
Pin: origin *ubuntu.com*
Pin-Priority: -1

Explanation: everything of the vendor
Package: *
Pin: release l=NVIDIA CUDA
Pin-Priority: 600

Package: nvidia-modprobe nvidia-settings
Pin: version 580.*
Pin-Priority: 1001
"""


def test_preferences_of_others() -> None:
    assert parse_preferences(PINS) == [
        Pin("nsight-compute", "origin *ubuntu.com*", "-1"),
        Pin("*", "release l=NVIDIA CUDA", "600"),
        Pin("nvidia-modprobe", "version 580.*", "1001"),
        Pin("nvidia-settings", "version 580.*", "1001"),
    ]
    assert parse_preferences(None) == parse_preferences("") == parse_preferences("Package: x\n") == []


@pytest.mark.parametrize(
    ("pattern", "speaks"),
    [
        ("*", True),
        ("nvidia-*", True),
        ("nvidia-driver-580-open:any", True),
        ("/^nvidia-driver/", True),
        ("/(/", True),
        ("libnvidia-*", False),
        ("/^cuda/", False),
    ],
)
def test_which_records_speak_of_a_package(pattern: str, speaks: bool) -> None:
    assert bool(concerning([Pin(pattern, "origin x", "1")], ["nvidia-driver-580-open"])) is speaks


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"deb [signed-by={KEYRING}] {CUDA}/ /\n", [Source(f"{CUDA}/", "/", KEYRING)]),
        (f"# a comment\ndeb [arch=amd64 signed-by={KEYRING}] {CUDA} / # why\n", [Source(CUDA, "/", KEYRING)]),
        ("#deb http://a b c\n\ndeb http://a b c\n", [Source("http://a", "b", "")]),
        (
            DEB822,
            [
                Source(CUDA, "./", KEYRING),
                Source("http://a", "x", ""),
                Source("http://a", "y", ""),
                Source("http://b", "x", ""),
                Source("http://b", "y", ""),
            ],
        ),
        ("", []),
        (None, []),
    ],
)
def test_sources_of_others(text: str | None, found: list[Source]) -> None:
    assert parse_sources(text) == found


def test_a_slash_at_the_end_makes_no_other_repository() -> None:
    assert Source(f"{CUDA}/", "/", "a").repository == Source(CUDA, "/", "b").repository
    assert Source(CUDA, "noble", "").repository != Source(CUDA, "jammy", "").repository
