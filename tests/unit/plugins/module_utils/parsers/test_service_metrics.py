# SPDX-License-Identifier: Apache-2.0
"""Times and prefix cache of a server's page, of both engines, and of pages that nobody should believe."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.histogram import quantile
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.service_metrics import parse_service_metrics
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.service_pages import sglang_page, vllm_page

CAPTURED = Path(__file__).resolve().parents[5] / "molecule/monitoring/files/engine.txt"


def test_a_captured_page_of_vllm() -> None:
    found = parse_service_metrics(CAPTURED.read_text())
    assert found is not None
    assert {name: one[math.inf] for name, one in found.times.items()} == {"ttft": 18, "tpot": 18, "itl": 38, "e2e": 18}
    assert quantile(found.times["ttft"], 0.5) == pytest.approx(0.045)
    assert (found.queries, found.hits, found.only_streamed) == (299, 0, False)


def test_vllm_of_several_engines_is_added_up() -> None:
    page = vllm_page([0.2, 0.3], queries=100, hits=40) + vllm_page([3.0], queries=20, hits=10, engine="1")
    found = parse_service_metrics(page)
    assert found is not None
    assert (found.times["ttft"][0.5], found.times["ttft"][math.inf]) == (2, 3)
    assert (found.queries, found.hits) == (120, 50)


def test_older_names_of_vllm() -> None:
    page = (
        vllm_page([0.2], [0.03])
        .replace("inter_token_latency", "time_per_output_token")
        .replace("request_time_per_output_token", "gone")
        .replace("prefix_cache", "gpu_prefix_cache")
    )
    found = parse_service_metrics(page)
    assert found is not None
    assert (found.times["itl"][math.inf], "tpot" in found.times, found.queries) == (1, False, 0)


def test_sglang_tells_of_streamed_requests() -> None:
    found = parse_service_metrics(sglang_page([0.2], [0.03], [1.0], prompts=100, cached=25, unstreamed=[9.0]))
    assert found is not None
    assert (found.times["ttft"][math.inf], found.times["itl"][math.inf], found.times["e2e"][math.inf]) == (1, 1, 2)
    assert (found.queries, found.hits, found.only_streamed) == (100, 25, True)
    assert "tpot" not in found.times


def test_sglang_before_its_first_hit_and_before_it_told_who_streams() -> None:
    page = sglang_page([0.2], prompts=100).replace('is_streaming="true",', "")
    found = parse_service_metrics("\n".join(line for line in page.splitlines() if "is_streaming" not in line) + "\n")
    assert found is not None
    assert (found.times["ttft"][math.inf], found.queries, found.hits, found.only_streamed) == (1, 100, 0, False)


def test_under_rays_exporter() -> None:
    found = parse_service_metrics(vllm_page([0.2], queries=7).replace("vllm:", "ray_vllm_"))
    assert found is not None
    assert (found.times["ttft"][math.inf], found.queries) == (1, 7)


def test_the_page_of_another_program() -> None:
    assert parse_service_metrics("") is None
    assert parse_service_metrics("trtllm_requests 1\n") is None
    assert parse_service_metrics("<html>no</html>") is None


BUCKET = 'vllm:time_to_first_token_seconds_bucket{engine="0",le="%s",model_name="tiny"} '


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (BUCKET % "0.5" + "2.0", BUCKET % "0.5" + "NaN"),
        (BUCKET % "0.5" + "2.0", BUCKET % "0.5" + "-2.0"),
        (BUCKET % "0.5" + "2.0", BUCKET % "0.5" + "+Inf"),
        (BUCKET % "0.5" + "2.0", BUCKET % "0.5" + "1e400"),
        (BUCKET % "0.5" + "2.0", BUCKET % "NaN" + "2.0"),
        (BUCKET % "0.5" + "2.0", BUCKET % "" + "2.0"),
        (BUCKET % "0.5" + "2.0", "\n".join(BUCKET % (100 + more) + "2.0" for more in range(200))),
    ],
)
def test_a_histogram_that_cannot_be_is_left_out_and_the_others_are_there(was: str, becomes: str) -> None:
    page = vllm_page([0.2, 0.3], e2e=[1.0, 2.0])
    assert was in page
    found = parse_service_metrics(page.replace(was, becomes))
    assert found is not None
    assert found.times["ttft"] == {}
    assert all(found.times[name] for name in ("e2e", "itl", "tpot"))


def test_without_the_last_bucket_the_count_stands_for_it() -> None:
    whole = vllm_page([0.2, 0.3])
    page = "\n".join(line for line in whole.splitlines() if 'le="+Inf"' not in line) + "\n"
    assert parse_service_metrics(page) == parse_service_metrics(whole)
    cut = "\n".join(line for line in page.splitlines() if "_count" not in line) + "\n"
    found = parse_service_metrics(cut)
    assert found is not None
    assert found.times == {"ttft": {}, "tpot": {}, "itl": {}, "e2e": {}}


def test_lines_that_come_twice_count_once() -> None:
    page = vllm_page([0.2, 0.3], e2e=[1.0], queries=7, hits=3)
    assert parse_service_metrics(page + page) == parse_service_metrics(page)


@pytest.mark.parametrize("value", ["NaN", "-1.0", "+Inf", "1e308"])
def test_counters_that_cannot_be_are_not_told(value: str) -> None:
    line = 'vllm:prefix_cache_queries_total{engine="%s",model_name="tiny"} %s\n'
    found = parse_service_metrics(line % ("0", value) + line % ("1", value))
    assert found is not None
    assert (found.queries, found.hits) == (None, None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["_bucket", "_count", "_sum", ""]),
            st.sampled_from(["0.1", "1", "1.0", "+Inf", "-Inf", "NaN", "", "x"]),
            st.sampled_from(["0", "3", "1e308", "-1", "NaN", "+Inf", "x", ""]),
        ),
        max_size=30,
    )
)
def test_whatever_a_page_has_what_is_read_is_a_histogram(lines: list[tuple[str, str, str]]) -> None:
    page = "".join(f'vllm:time_to_first_token_seconds{end}{{le="{le}"}} {value}\n' for end, le, value in lines)
    found = parse_service_metrics(page)
    for one in found.times.values() if found else ():
        assert list(one) == sorted(one)
        assert list(one.values()) == sorted(one.values())
        assert all(0 <= count < math.inf for count in one.values())
