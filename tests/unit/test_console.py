# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io

import pytest
from rich.console import Console

from firstlight.console import NARROWEST, open_console, print_rows, safe
from firstlight.memory_view import print_memory

GIB = 1 << 30
MEMORY = {
    "total_bytes": 120 * GIB,
    "os_bytes": 18 * GIB,
    "weights_bytes": 66 * GIB,
    "activation_bytes": GIB,
    "runtime_bytes": 2 * GIB,
    "kv_bytes": 32 * GIB,
    "free_bytes": GIB,
}


def terminal(width: int, *, pipe: bool = False) -> Console:
    return Console(file=io.StringIO(), width=width, soft_wrap=pipe, highlight=False)


def lines(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(("columns", "width"), [("0", 80), ("-1", 80), ("x", 80), ("5", NARROWEST), ("120", 120)])
def test_a_width_that_is_none_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    console = open_console()
    assert console.width == width
    console.print("words")
    assert capsys.readouterr().out == "words\n"


@pytest.mark.parametrize("width", [NARROWEST, 40, 80, 200])
def test_bar_and_legend_stay_within_a_terminal(width: int) -> None:
    console = terminal(width)
    print_memory(console, MEMORY)
    found = lines(console)
    assert all(len(line) <= width for line in found)
    text = "\n".join(found)
    for words in ("operating system 18.0 GiB", "weights 66.0 GiB", "unused 1.0 GiB"):
        assert words in text


def test_a_pipe_gets_one_line_each() -> None:
    console = terminal(40, pipe=True)
    print_memory(console, MEMORY)
    assert len(lines(console)) == 2
    console = terminal(40, pipe=True)
    print_rows(console, [("  chat", "word " * 40), ("  latency", "")])
    assert [line.rstrip() == line for line in lines(console)] == [True, True]
    assert len(lines(console)) == 2


def test_a_terminal_gets_rows_within_its_width() -> None:
    console = terminal(40)
    print_rows(console, [("   change:", "set the context length to 1000 or less, or take more GPUs of this kind")])
    found = lines(console)
    assert len(found) > 1
    assert all(len(line) <= 40 for line in found)
    assert all(line.startswith(" " * 11) for line in found[1:]), "values wrap in their own column"


def test_what_a_terminal_would_act_on_is_written_out() -> None:
    assert safe("a\x1b[31m\ud800\tb\nc") == "a\\x1b[31m\\ud800\\tb\nc"
