# SPDX-License-Identifier: Apache-2.0
"""Pages: what we write can be read back, and of others' pages only what is allowed and sound is taken over."""

from __future__ import annotations

import math
import re

import pytest
from ansible_collections.firstlight.cluster.roles.monitoring.program.page import (
    MOST_LINES,
    gauge,
    number,
    rendered,
    sample,
    taken_over,
)
from hypothesis import given
from hypothesis import strategies as st

PAGE = """\
# HELP python_info Python platform information
# TYPE python_info gauge
python_info{version="3.12"} 1.0
# HELP vllm:tokens_total Tokens
# TYPE vllm:tokens_total counter
vllm:tokens_total{engine="0",model_name="a b"} 12.0
# TYPE vllm:wait_seconds histogram
vllm:wait_seconds_bucket{le="+Inf"} 3
vllm:wait_seconds_sum 1.5
vllm:wait_seconds_count 3 1700000000000
vllm:bare 4
"""


def test_only_allowed_names_are_taken_over_and_stay_with_their_family() -> None:
    families = taken_over(PAGE, ["vllm:"], {"server": "8000"})
    assert [one.name for one in families] == ["vllm:tokens_total", "vllm:wait_seconds", "vllm:bare"]
    assert rendered(families) == (
        "# HELP vllm:tokens_total Tokens\n"
        "# TYPE vllm:tokens_total counter\n"
        'vllm:tokens_total{server="8000",engine="0",model_name="a b"} 12.0\n'
        "# TYPE vllm:wait_seconds histogram\n"
        'vllm:wait_seconds_bucket{server="8000",le="+Inf"} 3\n'
        'vllm:wait_seconds_sum{server="8000"} 1.5\n'
        'vllm:wait_seconds_count{server="8000"} 3 1700000000000\n'
        "# TYPE vllm:bare untyped\n"
        'vllm:bare{server="8000"} 4\n'
    )


def test_the_pages_of_two_replicas_become_one() -> None:
    both = [*taken_over(PAGE, ["vllm:"], {"server": "1"}), *taken_over(PAGE, ["vllm:"], {"server": "2"})]
    text = rendered(both)
    assert text.count("# TYPE vllm:tokens_total counter") == 1
    assert text.count("vllm:tokens_total{") == 2


@pytest.mark.parametrize(
    "line",
    ["vllm:x", "vllm:x one", 'vllm:x{a="1} 2', "vllm:x{a=1} 2", 'vllm:x{a="1"b="2"} 3', "vllm:x 1 2 3", "vllm:x{} 1}"],
)
def test_a_line_that_would_break_the_page_is_left_out(line: str) -> None:
    assert line not in rendered(taken_over(f"vllm:good 1\n{line}\n", ["vllm:"]))


def test_a_page_without_anything_allowed_is_an_error() -> None:
    with pytest.raises(ValueError, match="no sample that begins with vllm:"):
        taken_over("<html>it works</html>", ["vllm:"])


def test_a_page_without_an_end_is_an_error() -> None:
    text = "".join(f"vllm:x{number} 1\n" for number in range(MOST_LINES + 1))
    with pytest.raises(ValueError, match="more than"):
        taken_over(text, ["vllm:"])


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(), max_size=3), st.floats())
def test_what_we_write_is_taken_over_as_it_is(labels: dict[str, str], value: float) -> None:
    text = rendered([gauge("firstlight_x", "Meaning.", [(labels, value)])])
    assert rendered(taken_over(text, ["firstlight_"])) == text


@given(st.text(), st.sampled_from([{}, {"server": "1"}]))
def test_no_text_breaks_the_page(text: str, labels: dict[str, str]) -> None:
    page = rendered(taken_over(f"vllm:good 1\n{text}\n", ["vllm:"], labels))
    for line in page.split("\n")[:-1]:
        assert line.startswith("#") or re.match(
            r'^vllm:[\w:]*(\{([A-Za-z_]\w*="(\\.|[^"\\])*",?)*\})? \S+( -?\d+)?$', line
        )


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (0.5, "0.5"), (math.inf, "+Inf"), (-math.inf, "-Inf")])
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text
    assert number(math.nan) == "NaN"


def test_labels_are_escaped() -> None:
    assert sample("x", {"a": 'say "no"\\\n'}, 1) == 'x{a="say \\"no\\"\\\\\\n"} 1'
