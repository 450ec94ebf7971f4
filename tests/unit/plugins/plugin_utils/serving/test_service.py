# SPDX-License-Identifier: Apache-2.0
"""How well a cluster served lately: the figures, the targets that were missed, and nothing where there is nothing."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.service_metrics import parse_service_metrics
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.recent import recent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.service import service, service_words
from hypothesis import given

from tests.unit.hostile import documents
from tests.unit.service_pages import sglang_page, vllm_page

TARGETS = {"ttft_p95_ms": 800, "tpot_p95_ms": 50, "e2e_p95_ms": 20000, "queue": 16, "prefix_hit_rate": 0.3}


def load(before: str, now: str, requests: int, waiting: int = 0) -> dict[str, Any]:
    """The load as a supervisor writes it."""
    first, last = parse_service_metrics(before), parse_service_metrics(now)
    assert first is not None
    assert last is not None
    return {"waiting": waiting, "recent": {"window_s": 300.0, "requests": requests, **recent(first, last, [])}}


VLLM = load(vllm_page(), vllm_page([0.3] * 20, [0.03] * 20, [4.0] * 20, queries=100, hits=40), 20, 3)
SLOW = load(vllm_page(), vllm_page([4.0] * 20, [0.2] * 20, [90.0] * 20, queries=100, hits=10), 20, 21)


def test_figures_have_the_names_of_a_benchmark() -> None:
    found = service([VLLM], TARGETS)
    assert found["ttft_ms"] == {"50": 375.0, "95": 487.5, "99": 497.5}
    assert found["tpot_ms"] == {"50": 37.5, "95": 48.8, "99": 49.8}
    assert (found["e2e_ms"]["95"], found["prefix_hit_rate"], found["queue"]) == (4875.0, 0.4, 3)
    assert (found["requests"], found["window_s"], found["goodput"], found["missed"]) == (20, 300.0, 1.0, [])
    assert found["within"] == {"ttft_p95_ms": 1.0, "tpot_p95_ms": 1.0, "e2e_p95_ms": 1.0}
    assert service_words(found) == (
        "20 requests in the last 5 min, P95 first token 488 ms, P95 per token 48.8 ms, "
        "P95 whole request 4875 ms, prefix hits 40%, goodput 100%"
    )


def test_replicas_count_together() -> None:
    found = service([VLLM, SLOW], TARGETS)
    assert (found["requests"], found["queue"], found["prefix_hit_rate"], found["goodput"]) == (40, 24, 0.25, 0.5)
    assert found["ttft_ms"]["50"] == 500.0


def test_every_target_that_is_missed_is_a_sentence() -> None:
    assert service([SLOW], TARGETS)["missed"] == [
        "P95 first token is 4875.0 ms, target 800 ms (ttft_p95_ms)",
        "P95 per token is 197.5 ms, target 50 ms (tpot_p95_ms)",
        "P95 whole request is 117000.0 ms, target 20000 ms (e2e_p95_ms)",
        "21 requests wait, target 16 at most (queue)",
        "prefix-cache hit rate is 10%, target 30% (prefix_hit_rate)",
    ]
    assert service([SLOW], {})["missed"] == []
    assert service([SLOW], {})["goodput"] is None


def test_sglang_is_held_against_the_time_between_tokens_and_has_goodput_of_what_it_tells_by_request() -> None:
    page = sglang_page([0.3] * 3 + [4.0], [0.2] * 40, [4.0] * 4, prompts=100, cached=50)
    found = service([load(sglang_page(), page, 4, 2)], {"ttft_p95_ms": 1000, "tpot_p95_ms": 50})
    assert (found["tpot_ms"], found["itl_ms"]["95"], found["prefix_hit_rate"]) == (None, 197.5, 0.5)
    assert found["goodput"] == 0.75
    assert "P95 between tokens 198 ms" in service_words(found)
    assert "P95 between tokens is 197.5 ms, target 50 ms (tpot_p95_ms)" in found["missed"]


def test_without_requests_nothing_is_invented() -> None:
    # The supervisor's own prompts went through the cache.
    idle = load(vllm_page(), vllm_page(queries=40, hits=32), 0)
    found = service([idle], TARGETS)
    assert {key for key, value in found.items() if value is not None} == {
        *("window_s", "requests", "queue", "within", "targets", "missed")
    }
    assert (found["within"], found["missed"]) == ({}, [])
    assert service_words(found) == "no requests in the last 5 min"
    short = {**idle, "recent": {**idle["recent"], "window_s": 40.0}}
    assert service_words(service([short], {})) == "no requests in the last 40 s"


@pytest.mark.parametrize("loads", [[], [{}], [{"waiting": None, "recent": None}]])
def test_a_server_that_tells_nothing(loads: list[dict[str, Any]]) -> None:
    found = service(loads, TARGETS)
    assert (found["window_s"], found["requests"], found["queue"], found["missed"]) == (None, None, None, [])
    assert service_words(found) == ""


@given(documents(["window_s", "requests", "times", "ttft", "e2e", "0.1", "inf", "prefix", "queries", "hits"], 20))
def test_whatever_a_state_has_the_figures_are_figures(told: Any) -> None:
    found = service([{"recent": told}, VLLM], TARGETS)
    assert isinstance(service_words(found), str)
    assert found["goodput"] is None or 0 <= found["goodput"] <= 1
    assert found["prefix_hit_rate"] is None or 0 <= found["prefix_hit_rate"] <= 1
