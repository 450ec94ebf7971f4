# SPDX-License-Identifier: Apache-2.0
"""Words for a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.text import (
    clock_time,
    duration,
    fit,
    join_hosts,
    text_lines,
)
from hypothesis import given
from hypothesis import strategies as st


class TestLines:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (None, []),
            ("", []),
            ("a\r\nb\n", ["a", "b"]),
            (["a", ["b"]], ["a", "b"]),
            ({"a": 1}, ["{", '  "a": 1', "}"]),
            (0, ["0"]),
            ("\x1b[31mred\x1b[0m \x1b]0;title\x07x\x00", ["red x"]),
            ("10%\r20%\r", ["10%", "20%"]),
            ("safe\u202edetcefni\u202c", ["safedetcefni"]),
        ],
    )
    def test_text_lines(self, value: Any, expected: list[str]) -> None:
        assert text_lines(value) == expected

    @given(st.text())
    def test_no_text_can_move_the_cursor(self, text: str) -> None:
        assert not set("".join(text_lines(text))) & set(map(chr, [*range(32), 127, 0x9B]))


class TestWords:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [(-1, "0.0 s"), (12.34, "12.3 s"), (59.96, "1 min 00 s"), (185, "3 min 05 s"), (3725, "1 h 02 min")],
    )
    def test_duration(self, seconds: float, text: str) -> None:
        assert duration(seconds) == text

    @pytest.mark.parametrize(("seconds", "text"), [(42.9, "00:42"), (3723, "1:02:03"), (-5, "00:00")])
    def test_clock_time(self, seconds: float, text: str) -> None:
        assert clock_time(seconds) == text

    def test_many_hosts_are_counted(self) -> None:
        assert join_hosts([f"s{n}" for n in range(8)], 2) == "s0, s1 and 6 more"
        assert join_hosts(["s0", "s1"], 2) == "s0, s1"

    def test_wide_characters_count_twice(self) -> None:
        assert fit("部部部部", 8) == "部部部部"
        assert fit("部部部部", 7) == "部部..."

    @given(st.text(alphabet=st.characters(codec="ascii", min_codepoint=32)), st.integers(0, 40))
    def test_fit_never_exceeds_the_width(self, text: str, width: int) -> None:
        assert len(fit(text, width)) <= width
