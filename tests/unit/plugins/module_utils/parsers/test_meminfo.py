# SPDX-License-Identifier: Apache-2.0
"""All memory of a host."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.meminfo import total_bytes


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
