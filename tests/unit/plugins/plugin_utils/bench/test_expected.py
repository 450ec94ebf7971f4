# SPDX-License-Identifier: Apache-2.0
"""What a plan expects of each point of a benchmark, from the plans of the shipped inventories' hardware."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.expected import Served, expected
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import ModelLoad
from hypothesis import given
from hypothesis import strategies as st

HARDWARE = load_catalog([BUILT_IN])["hardware"]
LLAMA = ModelLoad(80, 8192, 70e9, 70e9, 70e9, 160_000, precision="fp8", kv_shards=8)
SERVED = Served(LLAMA, HARDWARE["h100-sxm-8"], 4, 1, 1, most=lambda length: 400_000 // length)
CHAT: dict[str, Any] = {"name": "chat", "input": 1024, "output": 256}


def tokens(served: Served, **load: Any) -> tuple[float, float]:
    return expected(served, CHAT, **load).ranges["output_tokens_per_s"]


def test_one_stream_has_all_three_figures_and_many_no_first_token() -> None:
    assert set(expected(SERVED, CHAT, streams=1).ranges) == {"output_tokens_per_s", "tpot_ms.50", "ttft_ms.50"}
    assert set(expected(SERVED, CHAT, streams=16).ranges) == {"output_tokens_per_s", "tpot_ms.50"}
    assert set(expected(SERVED, CHAT, rate=2).ranges) == {"output_tokens_per_s"}
    assert 0 < (expected(SERVED, CHAT, streams=1).communication_share or 0) < 1


def test_replicas_share_the_streams() -> None:
    two = replace(SERVED, replicas=2)
    assert tokens(two, streams=32) == tuple(2 * one for one in tokens(SERVED, streams=16))
    assert tokens(two, streams=1) == tokens(SERVED, streams=1)
    assert "ttft_ms.50" in expected(two, CHAT, streams=2).ranges


def test_streams_beyond_the_cache_add_nothing() -> None:
    most = SERVED.most(1280)
    assert tokens(SERVED, streams=2 * most) == tokens(SERVED, streams=most)


def test_a_rate_is_what_is_asked_for_until_it_is_too_much() -> None:
    low, high = tokens(SERVED, rate=1)
    assert low == pytest.approx(0.9 * 256)
    assert high == 256
    limit = tokens(SERVED, rate=1e5)
    assert tokens(SERVED, rate=2e5) == limit
    assert high < limit[1] < 1e5 * 256


@given(st.integers(1, 400), st.integers(1, 400))
def test_more_streams_are_never_expected_to_give_fewer_tokens(one: int, other: int) -> None:
    few, many = sorted((one, other))
    assert tokens(SERVED, streams=few)[0] <= tokens(SERVED, streams=many)[0] * (1 + 1e-9)


@given(st.integers(1, 2000), st.sampled_from([None, 0.5, 40.0]), st.integers(1, 100_000), st.integers(1, 2000))
def test_a_range_is_a_range(streams: int, rate: float | None, prompt: int, output: int) -> None:
    load: dict[str, Any] = {"streams": streams} if rate is None else {"rate": rate}
    for low, high in expected(SERVED, {"input": prompt, "output": output}, **load).ranges.values():
        assert 0 < low <= high


@pytest.mark.parametrize(
    ("served", "workload", "load", "why"),
    [
        (None, CHAT, {"streams": 1}, "no estimate"),
        (SERVED, {"input": None, "output": None}, {"streams": 1}, "no fixed length"),
        (
            replace(SERVED, hardware={"name": "mine"}),
            CHAT,
            {"streams": 1},
            "mine lacks memory_bandwidth_gb_s and tflops",
        ),
        (SERVED, {"input": 500_000, "output": 1}, {"streams": 1}, "fits into the KV cache"),
        (SERVED, {**CHAT, "prefix": 800}, {"streams": 1}, "share a prefix"),
        (SERVED, CHAT, {}, "neither"),
    ],
)
def test_where_nothing_is_expected_it_is_said_why(served: Any, workload: Any, load: Any, why: str) -> None:
    found = expected(served, workload, **load)
    assert found.ranges == {}
    assert why in found.why
