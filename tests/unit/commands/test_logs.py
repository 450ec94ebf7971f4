# SPDX-License-Identifier: Apache-2.0
"""How much `firstlight logs` asks the hosts for."""

from __future__ import annotations

import pytest

from firstlight.cli import build_parser
from firstlight.commands.logs import MANY_LINES, settings


@pytest.mark.parametrize(
    ("words", "cursors", "lines"),
    [
        ([], {}, 200),
        (["--since", "15m"], {}, MANY_LINES),
        (["--since", "15m", "--lines", "7"], {}, 7),
        (["--lines", "7"], {"spark0": "s=1"}, MANY_LINES),
        (["--lines", "9000"], {"spark0": "s=1"}, 9000),
    ],
)
def test_nothing_that_came_while_following_is_left_out(words: list[str], cursors: dict[str, str], lines: int) -> None:
    arguments = build_parser("logs").parse_args(["logs", "-i", "x", "--follow", *words])
    assert settings(arguments, cursors)["logs_lines"] == lines
