# SPDX-License-Identifier: Apache-2.0
"""What a CUDA toolkit says of itself."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.cuda import (
    Compiler,
    parse_nvcc_version,
    parse_version_json,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain

NVCC = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Wed_Aug_20_01:58:59_PM_PDT_2025
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0
"""


def test_the_compiler() -> None:
    assert parse_nvcc_version(NVCC) == Compiler("13.0", "13.0.88")
    assert parse_nvcc_version("nvcc fatal   : No input files specified\n") == Compiler()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('{"cuda": {"name": "CUDA SDK", "version": "13.0.2"}, "cuda_nvcc": {"version": "13.0.88"}}', "13.0.2"),
        (None, None),
        ("", None),
        ("[]", None),
        ('{"cuda": "13"}', None),
    ],
)
def test_the_release_in_full(text: str | None, version: str | None) -> None:
    assert parse_version_json(text) == version


def test_differences_in_words() -> None:
    desired = {"cuda": {"13.0": {"version": "13.0.3", "compiler": "13.0.97"}}}
    right = {"exists": True, "release": "13.0", "compiler": "13.0.97", "version": "13.0.3", "error": None}

    def told(entry: dict[str, Any] | None) -> list[str]:
        return explain(differences(desired, {"cuda": {"13.0": entry} if entry else {}}))

    assert told(right) == told({**right, "version": None}) == []
    wanted = "expected release 13.0, compiler 13.0.97, version 13.0.3"
    assert told(None) == [f"the compiler of CUDA 13.0 is unknown, {wanted}"]
    assert told({"exists": False}) == [f"the compiler of CUDA 13.0 is not there, {wanted}"]
    assert told({**right, "error": "no answer"}) == [f"the compiler of CUDA 13.0 does not answer (no answer), {wanted}"]
    assert told({**right, "compiler": "13.0.88", "version": "13.0.2"}) == [
        "the compiler of CUDA 13.0 has compiler 13.0.88, version 13.0.2, expected compiler 13.0.97, version 13.0.3"
    ]
