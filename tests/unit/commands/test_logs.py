# SPDX-License-Identifier: Apache-2.0
"""How much `firstlight logs` asks the hosts for."""

from __future__ import annotations

from typing import NoReturn

import pytest

from firstlight.ask_hosts import AskError
from firstlight.cli import build_parser, main
from firstlight.commands import logs, status
from firstlight.commands.logs import MANY_LINES, settings
from tests.unit.hostile import ESCAPES


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


@pytest.mark.hostile
@pytest.mark.parametrize("command", ["logs", "status"])
def test_why_hosts_could_not_be_asked_is_nothing_that_a_terminal_obeys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise AskError(f"a host said {ESCAPES}")

    for module in (logs, status):
        monkeypatch.setattr(module, "ask", refuse)
    assert main([command, "-i", "x"]) == 3
    assert capsys.readouterr().err == "firstlight: a host said \\x1b]0;pwned\\x07\\x1b[2J\\x9b31m\\r\\x08\n"
