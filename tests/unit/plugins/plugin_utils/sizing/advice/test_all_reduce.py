# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.all_reduce import (
    LINK_EFFICIENCY,
    UNKNOWN_LINK,
    all_reduce_seconds,
    fabric_link,
    group_all_reduce_seconds,
)
from hypothesis import given
from hypothesis import strategies as st

HARDWARE = load_catalog([Path(__file__).parents[6] / "catalog"])["hardware"]
NVLINK = HARDWARE["h100-sxm-8"]["interconnect"]
GB10 = HARDWARE["gb10"]


@pytest.mark.parametrize(
    ("elements", "microseconds"),
    [
        (512, (9.5, 9.1, 10.1)),
        (4096, (8.8, 8.5, 9.3)),
        (32768, (8.7, 9.2, 11.8)),
        (262144, (12.9, 20.6, 24.1)),
        (524288, (17.7, 26.9, 30.4)),
        (1048576, (26.6, 40.2, 45.0)),
    ],
)
def test_small_messages_on_nvlink_against_a_measurement(elements: int, microseconds: tuple[float, ...]) -> None:
    """vLLM's kernel on H100 at TP 2, 4 and 8, github.com/sgl-project/sglang/pull/2904, taken as bf16 elements."""
    for ranks, measured in zip((2, 4, 8), microseconds, strict=True):
        assert all_reduce_seconds(elements * 2, ranks, NVLINK) * 1e6 == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize(("size", "microseconds"), [(8192, 32.7), (16384, 31.2), (32768, 38.5)])
def test_small_messages_between_two_gb10_against_a_measurement(size: int, microseconds: float) -> None:
    """nccl-tests on two DGX Spark, github.com/NVIDIA/dgx-spark-playbooks/pull/103, mean of both columns."""
    assert all_reduce_seconds(size, 2, fabric_link(GB10)) * 1e6 == pytest.approx(microseconds, rel=0.15)


@pytest.mark.parametrize(("link", "ranks", "gb_s"), [(NVLINK, 4, 366), (fabric_link(GB10), 2, 20.5)])
def test_large_messages_reach_the_published_bus_bandwidth(link: Any, ranks: int, gb_s: float) -> None:
    """4 x H100: nccl-collectives-bench, 2026-05-31; two GB10 with both halves of a port: 20.5 GB/s."""
    size = 2**33
    busbw = 2 * (ranks - 1) / ranks * size / all_reduce_seconds(size, ranks, link) / 1e9
    assert busbw == pytest.approx(gb_s, rel=0.05)


def test_one_rank_reduces_nothing() -> None:
    assert all_reduce_seconds(2**20, 1, NVLINK) == 0
    assert all_reduce_seconds(0, 8, NVLINK) == 0


def test_half_the_fabric_halves_the_bandwidth_and_a_third_port_adds_nothing() -> None:
    assert fabric_link(GB10, 1)["bandwidth_gb_s"] * 2 == fabric_link(GB10, 2)["bandwidth_gb_s"] == 25
    assert fabric_link(GB10, 4) == fabric_link(GB10)


def test_without_rdma_the_same_ports_are_slower() -> None:
    for rails in (None, 1, 2):
        fast, slow = fabric_link(GB10, rails, True), fabric_link(GB10, rails, False)
        assert fast == fabric_link(GB10, rails)
        for size in (8192, 2**26):
            assert all_reduce_seconds(size, 4, slow) > 1.5 * all_reduce_seconds(size, 4, fast)
    plain = {**GB10, "fabric": {**GB10["fabric"], "rdma": False}}
    assert fabric_link(plain, None, False) == fabric_link(plain), "the figures are already those without"


def test_without_a_rail_it_is_another_network() -> None:
    assert fabric_link(GB10, 0) == UNKNOWN_LINK


def test_an_unknown_link_is_taken_as_slow_ethernet() -> None:
    assert fabric_link(HARDWARE["h100-sxm-8"]) == UNKNOWN_LINK
    slow = all_reduce_seconds(8192, 2, {"bandwidth_gb_s": None, "latency_us": None})
    assert slow == all_reduce_seconds(8192, 2, {}) == all_reduce_seconds(8192, 2, UNKNOWN_LINK)
    assert slow == all_reduce_seconds(8192, 2, {"bandwidth_gb_s": True, "latency_us": {"two": 1, 2: "x"}})


def test_a_group_over_hosts_pays_both_links() -> None:
    board = HARDWARE["h100-sxm-8"]
    inside = group_all_reduce_seconds(2**20, board, ranks=8, hosts=1)
    both = group_all_reduce_seconds(2**20, board, ranks=16, hosts=2)
    assert both == pytest.approx(inside + all_reduce_seconds(2**20, 2, UNKNOWN_LINK))
    assert group_all_reduce_seconds(8192, GB10, ranks=4, hosts=4) == all_reduce_seconds(8192, 4, fabric_link(GB10))


def test_latency_lies_on_the_line_between_known_sizes() -> None:
    link = {"bandwidth_gb_s": 1e9, "latency_us": {"2": 10, 4: 20, 16: 40}}
    seen = {ranks: round(all_reduce_seconds(1, ranks, link) * 1e6, 3) for ranks in (2, 3, 4, 8, 16, 32)}
    assert seen == {2: 10, 3: 15.85, 4: 20, 8: 30, 16: 40, 32: 50}


@given(st.floats(1, 1e12), st.floats(1, 1e12), st.integers(2, 64))
def test_more_bytes_never_take_less_time_nor_beat_the_link(first: float, second: float, ranks: int) -> None:
    small, large = sorted((first, second))
    assert all_reduce_seconds(small, ranks, NVLINK) <= all_reduce_seconds(large, ranks, NVLINK)
    transfer = 2 * (ranks - 1) / ranks * large / (NVLINK["bandwidth_gb_s"] * 1e9 * LINK_EFFICIENCY)
    assert all_reduce_seconds(large, ranks, NVLINK) > transfer


@given(st.floats(1, 1e12), st.integers(2, 63))
def test_more_ranks_never_take_less_time(message: float, ranks: int) -> None:
    for link in (NVLINK, fabric_link(GB10)):
        assert all_reduce_seconds(message, ranks, link) <= all_reduce_seconds(message, ranks + 1, link)
