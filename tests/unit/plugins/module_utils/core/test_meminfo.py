# SPDX-License-Identifier: Apache-2.0
"""Free memory."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.meminfo import free_bytes

MEMINFO = "MemTotal:       128521188 kB\nMemFree:        40960 kB\nMemAvailable:   119000000 kB\n"


@pytest.mark.parametrize(
    ("text", "expected"), [(MEMINFO, 40960 * 1024), ("", 0), ("MemFree:\n", 0), ("MemFree: many kB\n", 0)]
)
def test_free(text: str, expected: int) -> None:
    assert free_bytes(text) == expected
