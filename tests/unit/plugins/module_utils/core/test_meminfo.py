# SPDX-License-Identifier: Apache-2.0
"""Memory, all of it and what is free."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.meminfo import free_bytes, total_bytes

MEMINFO = "MemTotal:       128521188 kB\nMemFree:        40960 kB\nMemAvailable:   119000000 kB\n"


@pytest.mark.parametrize(
    ("text", "expected"), [(MEMINFO, 40960 * 1024), ("", 0), ("MemFree:\n", 0), ("MemFree: many kB\n", 0)]
)
def test_free(text: str, expected: int) -> None:
    assert free_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MemTotal:       127535176 kB\nMemFree:        1 kB\n", 127535176 * 1024),
        ("", None),
        ("MemTotal:\n", None),
        ("MemTotal: many kB\n", None),
    ],
)
def test_total(text: str, expected: int | None) -> None:
    assert total_bytes(text) == expected
