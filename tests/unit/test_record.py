# SPDX-License-Identifier: Apache-2.0
"""Pictures of what a command prints."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET

from scripts.record import MOST_LINES, final, picture, printed

COMMAND = ["firstlight", "plan"]


def test_a_command_is_recorded_with_its_colours_and_times() -> None:
    tell = ("print('\\033[32mfirst\\033[0m')", "print('live\\rlast', flush=True)", "time.sleep(0.3)", "print('end')")
    told = "; ".join(("import time", *tell))
    lines = printed([sys.executable, "-c", told])
    assert [line for _, line in final(lines)] == ["\033[32mfirst\033[0m", "last", "end"]
    assert lines[2][0] - lines[1][0] > 0.2


def test_long_output_keeps_its_beginning_and_end() -> None:
    lines = final([(float(number), f"line {number}") for number in range(200)])
    assert len(lines) == MOST_LINES + 1
    assert (lines[0][1], lines[-1][1]) == ("line 0", "line 199")
    assert lines[MOST_LINES // 2][1] == f"... {200 - MOST_LINES} lines ..."


def test_lines_can_be_left_out() -> None:
    lines = [(0.0, "==> Fabric"), (1.0, "  spark0  \033[33mchanged\033[0m  Write it"), (2.0, "    Fabric done")]
    assert [line for _, line in final(lines, r"^  spark\d  changed")] == ["==> Fabric", "    Fabric done"]


def test_a_picture_that_moves_shows_every_line_in_its_order_and_nothing_runs_in_it() -> None:
    shown = picture(COMMAND, [(0.1, "one <b>"), (60.0, "two"), (61.0, "three")], seconds=10.0)
    ET.fromstring(shown)  # well-formed
    delays = [float(one) for one in re.findall(r"animation-delay: ([\d.]+)s", shown)]
    assert delays == sorted(delays)
    assert delays[-1] == 10.0
    assert all(f"recording-at-{line} " in shown for line in (1, 2, 3))
    assert "recording-at-0" not in shown
    assert "prefers-reduced-motion" in shown
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", shown)


def test_a_picture_that_stands_still_has_no_animation() -> None:
    shown = picture(COMMAND, [(0.1, "one"), (2.0, "two")])
    ET.fromstring(shown)
    assert "animation" not in shown
