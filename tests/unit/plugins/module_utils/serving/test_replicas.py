# SPDX-License-Identifier: Apache-2.0
"""How many replicas answer, from the journal of the program that deploys them."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.replicas import ANSWER, parse_replicas
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.ray_serve_program import SERVE_PROGRAM


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("firstlight: 1 of 2 replicas answer\n", {"answer": 1, "planned": 2}),
        ("firstlight: 0 of 16 replicas answer", {"answer": 0, "planned": 16}),
        ("-- No entries --\n", None),
        ("firstlight: deploys 2 replicas of tiny", None),
        ("", None),
    ],
)
def test_what_was_said(line: str, found: dict[str, int] | None) -> None:
    assert parse_replicas(line) == found


def test_the_program_says_it_in_these_words() -> None:
    assert f"{{count}} of {{settings['replicas']}} {ANSWER}" in SERVE_PROGRAM
