# SPDX-License-Identifier: Apache-2.0
"""vLLM's page of metrics: names of old and new releases, several engines, pages that are cut off, and other pages."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.vllm_metrics import parse_vllm_metrics
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples


def page(cache: str = "kv_cache_usage_perc", engines: int = 2) -> str:
    """A page as vLLM writes it."""
    lines = ["# HELP process_open_fds Open.", "# TYPE process_open_fds gauge", "process_open_fds 49.0"]
    for name, kind, value in (
        ("num_requests_running", "gauge", "3.0"),
        ("num_requests_waiting", "gauge", "1.0"),
        (cache, "gauge", "0.25"),
        ("num_preemptions_total", "counter", "2.0"),
        ("generation_tokens_total", "counter", "1.5e+03"),
    ):
        lines += [f"# HELP vllm:{name} Words.", f"# TYPE vllm:{name} {kind}"]
        lines += [f'vllm:{name}{{engine="{one}",model_name="org/a, {{b}}"}} {value}' for one in range(engines)]
    lines += ["# HELP vllm:request_success_total Words.", "# TYPE vllm:request_success_total counter"]
    for reason in ("stop", "length", "abort"):
        lines += [
            f'vllm:request_success_total{{engine="{one}",finished_reason="{reason}",model_name="org/a, {{b}}"}} 10.0'
            for one in range(engines)
        ]
    lines += ["# TYPE vllm:time_to_first_token_seconds histogram"]
    for one in range(engines):
        labels = f'engine="{one}",model_name="org/a, {{b}}"'
        lines += [
            f'vllm:time_to_first_token_seconds_bucket{{{labels},le="+Inf"}} 4.0',
            f"vllm:time_to_first_token_seconds_count{{{labels}}} 4.0",
            f"vllm:time_to_first_token_seconds_sum{{{labels}}} 1.0",
        ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("cache", ["kv_cache_usage_perc", "gpu_cache_usage_perc"])
def test_engines_are_added_up(cache: str) -> None:
    data, problems = parse_vllm_metrics(page(cache))
    assert problems == []
    assert data["models"] == ["org/a, {b}"]
    assert (data["engines"], data["running"], data["waiting"], data["preemptions"]) == (2, 6, 2, 4)
    assert data["kv_cache_usage"] == 0.25
    assert data["generation_tokens"] == 3000
    assert data["finished"] == {"stop": 20, "length": 20, "abort": 20}
    assert data["times"]["time_to_first_token"] == {"count": 8, "sum": 2, "mean": 0.25}


def test_the_names_under_rays_exporter() -> None:
    data, _ = parse_vllm_metrics('ray_vllm_num_requests_running{model_name="m",WorkerId="1"} 1.0\n')
    assert data["running"] == 1


def test_one_engine_without_a_value_leaves_the_sum_untold() -> None:
    cut = page().replace('vllm:num_requests_waiting{engine="1",model_name="org/a, {b}"} 1.0\n', "")
    data, problems = parse_vllm_metrics(cut)
    assert "waiting" not in data
    assert problems == ["vllm:num_requests_waiting is reported for 1 of 2 engines"]


@pytest.mark.parametrize("value", ["NaN", "+Inf"])
def test_what_is_no_number_is_told(value: str) -> None:
    data, problems = parse_vllm_metrics(f"vllm:num_requests_running {value}\n")
    assert "running" not in data
    assert problems == ["vllm:num_requests_running is not a number"]


def test_a_value_at_the_end_of_a_cut_page_is_not_believed() -> None:
    data, problems = parse_vllm_metrics("vllm:num_requests_running 3.0\nvllm:num_requests_waiting 1")
    assert "waiting" not in data
    assert len(problems) == 1


def test_a_page_that_ends_after_an_announcement_is_cut_off() -> None:
    whole = page()
    _, problems = parse_vllm_metrics(whole[: whole.index("vllm:request_success_total{")])
    assert problems == ["the page is cut off after 'vllm:request_success_total', which it announces"]


def test_no_server_is_trouble() -> None:
    line = "curl: (7) Failed to connect to 127.0.0.1 port 8000 after 0 ms: Connection refused"
    assert parse_vllm_metrics(line + "\n")[0] == {"trouble": [line]}


@pytest.mark.parametrize("text", ["", '{"error":"Unauthorized"}\n', "DCGM_FI_DEV_GPU_TEMP 25\n"])
def test_other_pages_are_not_understood(text: str) -> None:
    data, problems = parse_vllm_metrics(text)
    assert data == {}
    assert problems


@given(st.integers(0, len(page())))
@examples(60)
def test_no_cut_makes_a_number_wrong(end: int) -> None:
    whole: dict[str, Any] = parse_vllm_metrics(page())[0]
    cut = parse_vllm_metrics(page()[:end])[0]
    for key in ("running", "waiting", "kv_cache_usage", "preemptions"):
        assert key not in cut or cut[key] == whole[key] or cut["engines"] < whole["engines"]


def test_engines_that_count_too_much_together_are_told_of_as_no_number() -> None:
    data, problems = parse_vllm_metrics(page().replace("1.5e+03", "1e308").replace(" 4.0", " 1e308"))
    assert "generation_tokens" not in data
    assert "vllm:generation_tokens_total is not a number" in problems
