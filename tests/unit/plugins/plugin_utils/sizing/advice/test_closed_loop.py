# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.closed_loop import Demand, simulate
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import (
    FRONT_SECONDS,
    Draft,
    Experts,
    Group,
    ModelLoad,
    Speculation,
    decode,
    prefill,
)
from hypothesis import given
from hypothesis import strategies as st

H200 = load_catalog([Path(__file__).parents[6] / "catalog"])["hardware"]["h200-sxm-1"]
DENSE = ModelLoad(32, 4096, 16e9, 15e9, 7.5e9, 131072, feed=14336, vocabulary=128256, draft=Draft(1.5e9, 0.7e9))
MIXTURE = replace(DENSE, active_weight_bytes=6e9, weight_bytes=60e9, experts=Experts(128, 8, 57e9, 2e9))
ALONE = Group(DENSE, H200, tensor_parallel=1)


def test_one_client_sees_an_idle_group() -> None:
    found = simulate(ALONE, Demand(1024, 256, clients=1, slots=64))
    assert found.ttft_seconds == pytest.approx(
        prefill(DENSE, H200, tensor_parallel=1, prompt=1024).ttft_seconds, rel=0.02
    )
    step = decode(DENSE, H200, tensor_parallel=1, context=1152)
    assert found.tpot_seconds == pytest.approx(step.seconds, rel=0.02)
    assert found.bound_by == "memory"


def test_requests_that_the_cache_does_not_hold_wait() -> None:
    """Four times the clients that fit: the same tokens/s, and the first token after about three answers of others."""
    held = simulate(ALONE, Demand(1024, 256, clients=16, slots=16))
    queued = simulate(ALONE, Demand(1024, 256, clients=64, slots=16))
    assert queued.output_tokens_per_s == pytest.approx(held.output_tokens_per_s, rel=0.1)
    answer = held.ttft_seconds + 255 * held.tpot_seconds
    assert queued.ttft_seconds == pytest.approx(3 * answer, rel=0.35)
    assert queued.tpot_seconds == pytest.approx(held.tpot_seconds, rel=0.2)


def test_a_rate_far_below_what_it_can_is_served_at_that_rate() -> None:
    found = simulate(ALONE, Demand(1024, 256, clients=64, slots=256, rate=2.0))
    assert found.output_tokens_per_s == pytest.approx(2 * 256, rel=0.1)
    assert found.ttft_seconds < 0.06
    beyond = simulate(ALONE, Demand(1024, 256, clients=64, slots=256, rate=200.0))
    assert beyond.ttft_seconds > 1
    assert beyond.output_tokens_per_s < 200 * 256 / 4


def test_drafts_that_are_accepted_make_a_stream_faster_and_rejected_ones_slower() -> None:
    plain = simulate(ALONE, Demand(1024, 256, 1, 64))
    good, bad = (
        simulate(Group(DENSE, H200, tensor_parallel=1, speculation=Speculation(2, share)), Demand(1024, 256, 1, 64))
        for share in (0.8, 0.0)
    )
    assert Speculation(2, 0.8).per_step == pytest.approx(2.44)
    assert plain.output_tokens_per_s * 1.5 < good.output_tokens_per_s < plain.output_tokens_per_s * 2.44
    assert bad.output_tokens_per_s < plain.output_tokens_per_s


def test_checking_drafts_reads_more_experts() -> None:
    plain, checked = (
        Group(MIXTURE, H200, tensor_parallel=1, speculation=one).step(16, 1152) for one in (None, Speculation(3))
    )
    assert checked.memory_seconds > 1.3 * plain.memory_seconds
    assert checked.seconds > plain.seconds


def test_many_clients_take_no_time_to_compute() -> None:
    began = time.process_time()
    found = simulate(ALONE, Demand(100_000, 1000, clients=20_000, slots=300))
    assert time.process_time() - began < 2
    assert found.ttft_seconds > 1000


@given(
    st.integers(1, 300),
    st.integers(1, 20_000),
    st.integers(1, 2000),
    st.integers(1, 400),
    st.sampled_from([1, 2048, 8192]),
)
def test_every_demand_is_served(clients: int, prompt: int, output: int, slots: int, chunk: int) -> None:
    demand = Demand(prompt, output, clients, slots, max(chunk, slots, 64))
    found = simulate(ALONE, demand)
    assert found.output_tokens_per_s > 0
    assert found.ttft_seconds > FRONT_SECONDS
    assert found.tpot_seconds >= 0
    assert found == simulate(ALONE, demand)
