# SPDX-License-Identifier: Apache-2.0
"""SGLang's metrics, under the names that vLLM's have here."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.sglang_metrics import parse_sglang_metrics

PAGE = """# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="tiny",tp_rank="0"} 2.0
sglang:num_running_reqs{engine_type="unified",model_name="tiny",tp_rank="1"} 2.0
sglang:num_queue_reqs{model_name="tiny"} 1.0
sglang:token_usage{model_name="tiny"} 0.25
sglang:prompt_tokens_total{model_name="tiny"} 40.0
sglang:generation_tokens_total{model_name="tiny"} 70.0
sglang:num_requests_total{is_streaming="False",model_name="tiny"} 3.0
sglang:num_requests_total{is_streaming="True",model_name="tiny"} 4.0
"""


def test_what_the_page_tells() -> None:
    data, problems = parse_sglang_metrics(PAGE)
    assert problems == []
    assert data == {
        "prompt_tokens": 40.0,
        "generation_tokens": 70.0,
        "finished": {"all": 7.0},
        "running": 2.0,
        "waiting": 1.0,
        "kv_cache_usage": 0.25,
    }


def test_a_page_of_another_program() -> None:
    data, problems = parse_sglang_metrics('vllm:num_requests_running{model_name="tiny"} 0.0\n')
    assert data == {}
    assert "--enable-metrics" in problems[0]
    assert parse_sglang_metrics("")[0] == {}


def test_numbers_that_are_too_large_together_are_no_crash() -> None:
    assert parse_sglang_metrics(PAGE.replace("} 3.0", "} 1e308").replace("} 4.0", "} 1e308"))[0]["running"] == 2.0
