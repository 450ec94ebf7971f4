# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.advise import (
    CHAT_FLOOR,
    FitAt,
    advise,
    expected,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.options import cost_per_million
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import (
    Draft,
    Experts,
    ModelLoad,
    Speculation,
)
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[6]
HARDWARE = load_catalog([ROOT / "catalog"])["hardware"]
LOADS = yaml.safe_load((ROOT / "tests" / "fixtures" / "performance" / "published.yml").read_text(encoding="utf-8"))[
    "loads"
]
HGX = HARDWARE["h100-sxm-8"]
GB10 = HARDWARE["gb10"]


def load_of(name: str) -> ModelLoad:
    fields = dict(LOADS[name])
    experts = fields.pop("experts", None)
    return ModelLoad(**fields, experts=Experts(**experts) if experts else None)


def fitting(load: ModelLoad, hardware: dict[str, Any]) -> Callable[[int], FitAt]:
    """A simple fit: 0.9 of the memory (0.85 where shared), the weights' share and 6 GB of everything else."""
    memory = (hardware["memory_mib"] or hardware["os_visible_mib"]) * 2**20 * (0.85 if hardware["unified"] else 0.9)

    def fits(size: int) -> FitAt:
        left = memory - load.weight_bytes / size - 6e9
        if left <= 0:
            return FitAt(False, 0, f"{load.weight_bytes / size / 1e9:.0f} GB of weights a GPU")
        return FitAt(True, int(left / (load.kv_bytes_per_token / min(size, load.kv_shards or size))))

    return fits


def advice(
    name: str, hardware: dict[str, Any], *, gpus: int, hosts: int = 1, context: int = 32768, **more: Any
) -> dict[str, dict[str, Any]]:
    load = load_of(name)
    given_legal = more.pop("legal", [1, 2, 4, 8])
    entries = advise(
        load,
        hardware,
        gpus=gpus,
        hosts=hosts,
        legal=given_legal,
        fits=fitting(load, hardware),
        context=context,
        **more,
    )
    assert [entry["workload"] for entry in entries] == ["chat", "batch", "long-context", "latency"]
    json.dumps(entries, allow_nan=False)
    return {entry["workload"]: entry for entry in entries}


def choice(entry: dict[str, Any]) -> tuple[int | None, int]:
    return entry["tensor_parallel"], entry["replicas"]


def test_a_70b_in_bf16_on_eight_h100() -> None:
    """As published: TP 4 for chat, TP 8 where the KV cache of long contexts decides."""
    found = advice("llama-3.3-70b-bf16", HGX, gpus=8, context=131072)
    assert choice(found["chat"]) == (4, 2)
    assert choice(found["long-context"]) == (8, 1)
    assert "9 requests of 131072" in found["long-context"]["why"]
    assert "weights a GPU" in found["chat"]["options"][0]["rejected"]


def test_two_tp_2_replicas_or_one_tp_4() -> None:
    """The numbers decide: chat takes the replicas, a single stream is faster on the larger group."""
    found = advice("llama-3.3-70b-fp8", HARDWARE["h100-sxm-4-nvswitch"], gpus=4)
    assert choice(found["chat"]) == (2, 2)
    assert choice(found["batch"]) == (2, 2)
    assert choice(found["latency"]) == (4, 1)
    assert "from TP 4 and" in found["latency"]["why"]
    assert "2 replicas of TP 2" in found["latency"]["why"]
    assert "cost less than the reading they save" in found["latency"]["why"]


def test_replicas_win_latency_where_all_reduces_cost_more_than_they_save() -> None:
    tiny = ModelLoad(24, 896, 0.4e9, 0.4e9, 0.2e9, 12288)
    entries = advise(tiny, GB10, gpus=4, hosts=4, legal=[1, 2, 4], fits=lambda _size: FitAt(True, 10**6), context=8192)
    latency = entries[-1]
    assert choice(latency) == (1, 4)
    assert "cost more than the reading they save" in latency["why"]


def test_a_gain_within_the_error_of_the_model_is_no_reason_for_fewer_replicas() -> None:
    even = ModelLoad(10, 1024, 1e9, 1e9, 0.5e9, 1024)
    board = {**HGX, "interconnect": {"kind": "nvlink", "bandwidth_gb_s": 450, "latency_us": {2: 8, 4: 13, 8: 20}}}
    latency = advise(even, board, gpus=2, hosts=1, legal=[1, 2], fits=lambda _size: FitAt(True, 10**6), context=8192)[
        -1
    ]
    fast = {option["tp"]: option["tokens_per_s_per_stream"] for option in latency["options"]}
    assert fast[1] <= fast[2] * 1.05
    assert choice(latency) == (1, 2)


def test_four_sparks_serve_the_397b_as_one_group() -> None:
    found = advice("qwen3.5-397b-a17b-fp8", GB10, gpus=4, hosts=4, context=131072)
    assert {choice(entry) for entry in found.values()} == {(4, 1)}
    assert found["chat"]["tokens_per_s_per_stream"] >= CHAT_FLOOR
    assert found["chat"]["concurrency"] < 32
    assert all(option["hosts_per_replica"] == option["tp"] for option in found["chat"]["options"])


def test_a_group_stays_inside_a_host_when_it_can() -> None:
    found = advice("llama-3.3-70b-fp8", HGX, gpus=16, hosts=2, legal=[1, 2, 4, 8, 16])
    spanning = found["long-context"]["options"][-1]
    assert spanning["tp"] == 16
    assert "would span 2 hosts" in spanning["rejected"]
    assert choice(found["long-context"]) == (8, 2)


def test_a_group_spans_hosts_when_it_must() -> None:
    load = load_of("qwen3.5-397b-a17b-fp8")
    big = ModelLoad(**{**load.__dict__, "weight_bytes": 900e9})
    entries = advise(big, HGX, gpus=16, hosts=2, legal=[1, 2, 4, 8, 12, 16], fits=fitting(big, HGX), context=32768)
    assert {choice(entry) for entry in entries} == {(16, 1)}
    odd = next(option for option in entries[0]["options"] if option["tp"] == 12)
    assert odd["rejected"] == "does not fill hosts of 8 GPUs"


@pytest.mark.parametrize(
    ("legal", "words"),
    [
        ([1, 2, 4, 8], "The smallest change: 8 GPUs, where TP 8 fits."),
        (
            [1, 2, 4],
            "The smallest change: 5 GPUs (weights of 405 GB, 81 GB per GPU), or a quantisation to 80% of this size.",
        ),
        ([], "legal sizes up to that: none."),
    ],
)
def test_what_does_not_fit_says_what_would(legal: list[int], words: str) -> None:
    found = advice("qwen3.5-397b-a17b-fp8", HARDWARE["h100-sxm-4"], gpus=4, legal=legal)
    for entry in found.values():
        assert choice(entry) == (None, 0)
        assert entry["tokens_per_s"] is None
        assert words in entry["why"]
        assert len(entry["options"]) == len([size for size in legal if size <= 4])


def test_a_context_that_no_option_holds() -> None:
    load = load_of("llama-3.3-70b-bf16")
    found = advise(load, HGX, gpus=8, hosts=1, legal=[4, 8], fits=lambda size: FitAt(True, 1000 * size), context=131072)
    assert choice(found[0]) == (8, 1)
    assert choice(found[2]) == (None, 0)
    assert "Set max_model_len to 8000 or less" in found[2]["why"]


def test_requests_are_shortened_to_a_small_context() -> None:
    found = advice("llama-3.1-8b-fp8", GB10, gpus=1, legal=[1], context=64)
    assert all(entry["tokens_per_s"] > 0 for entry in found.values())
    assert "requests of 64" in found["long-context"]["why"]


@pytest.mark.parametrize("context", [-1, 0, 1, 2, 10**400])
def test_a_senseless_context_breaks_nothing(context: int) -> None:
    found = advice("llama-3.1-8b-fp8", GB10, gpus=1, legal=[1], context=context)
    assert found["chat"]["tokens_per_s"] > 0
    load = load_of("llama-3.1-8b-fp8")
    assert expected(load, GB10, gpus=1, hosts=1, tensor_parallel=1, context=context)["roofline_tokens_per_s"] > 0


def test_cost_follows_price_and_speed() -> None:
    free, cheap, dear = (
        advice("llama-3.3-70b-bf16", HGX, gpus=8, price_per_gpu_hour=price)["chat"] for price in (None, 2.0, 4.0)
    )
    assert free["cost_per_million_tokens"] is None
    assert dear["cost_per_million_tokens"] == pytest.approx(2 * cheap["cost_per_million_tokens"], rel=1e-3)
    assert cheap["cost_per_million_tokens"] == pytest.approx(8 * 2.0 / 3600 / cheap["tokens_per_s"] * 1e6, rel=0.01)


@pytest.mark.parametrize("price", [float("nan"), float("inf"), -1.0, True, "3"])
def test_a_price_that_is_none_gives_no_cost(price: Any) -> None:
    assert cost_per_million(100, 8, price) is None


def test_hardware_without_figures_gets_no_speeds() -> None:
    bare = {key: value for key, value in HGX.items() if key not in {"tflops", "memory_bandwidth_gb_s"}}
    load = load_of("llama-3.3-70b-bf16")
    entries = advise(load, bare, gpus=8, hosts=1, legal=[8], fits=fitting(load, HGX), context=8192)
    assert {entry["why"] for entry in entries} == {"hardware h100-sxm-8 lacks memory_bandwidth_gb_s and tflops"}
    found = expected(load, bare, gpus=8, hosts=1, tensor_parallel=8, context=8192)
    assert found["decode_tokens_per_s"] is None
    assert "lacks" in found["why"]


@pytest.mark.parametrize(
    "figures",
    [
        {"tflops": {"bf16": 0, "fp8": 0}},
        {"tflops": {}},
        {"tflops": [1, 2]},
        {"memory_bandwidth_gb_s": -5},
        {"memory_bandwidth_gb_s": 0},
        {"memory_bandwidth_gb_s": float("nan")},
    ],
)
def test_figures_that_mean_nothing_give_no_speeds(figures: dict[str, Any]) -> None:
    load = load_of("llama-3.3-70b-fp8")
    found = expected(load, {**HGX, **figures}, gpus=8, hosts=1, tensor_parallel=8, context=8192)
    assert found["decode_tokens_per_s"] is None
    assert next(iter(figures)) in found["why"]


def test_without_a_rate_for_fp8_that_of_bf16_counts() -> None:
    load = load_of("llama-3.3-70b-fp8")
    older = {**HGX, "tflops": {"bf16": 312, "fp8": None}}
    assert expected(load, older, gpus=8, hosts=1, tensor_parallel=8, context=8192)["decode_tokens_per_s"] is not None


def test_rails_and_rdma_decide_about_groups_that_span_hosts() -> None:
    """One rail must not get two rails' speed, nor TCP that of RDMA."""
    name = "qwen3.5-397b-a17b-fp8"
    ways: list[dict[str, Any]] = [{"rails": 2}, {"rails": 1}, {"rails": 1, "rdma": False}]
    speeds, totals, firsts = [], [], []
    for way in ways:
        found = expected(load_of(name), GB10, gpus=4, hosts=4, tensor_parallel=4, context=8192, **way)
        speeds.append(found["at_full_context"])
        batch = advice(name, GB10, gpus=4, hosts=4, **way)["batch"]
        totals.append(batch["tokens_per_s"])
        firsts.append(batch["ttft_ms"])
    assert speeds[0] >= speeds[1] > speeds[2]
    assert totals == sorted(set(totals), reverse=True)
    assert firsts == sorted(set(firsts))
    assert advice(name, GB10, gpus=4, hosts=4, rails=2, rdma=True) == advice(name, GB10, gpus=4, hosts=4)


@pytest.mark.parametrize(
    ("name", "hardware", "gpus", "hosts", "published"),
    [
        ("qwen3.5-397b-a17b-fp8", "gb10", 4, 4, (25.0, 28.0)),
        ("qwen3.5-397b-a17b-int4", "gb10", 4, 4, (36.0, 37.1)),
        ("qwen3-235b-a22b-int4", "gb10", 2, 2, (17.0, 17.0)),
        ("qwen3-235b-a22b-fp8", "h100-sxm-4-nvswitch", 4, 1, (80.0, 115.0)),
    ],
)
def test_the_expected_range_holds_what_was_published(
    name: str, hardware: str, gpus: int, hosts: int, published: tuple[float, float]
) -> None:
    """Sources as in the fixture; of 80 to 150 tokens/s for the 235B class the range holds the lower half."""
    found = expected(load_of(name), HARDWARE[hardware], gpus=gpus, hosts=hosts, tensor_parallel=gpus, context=131072)
    low, high = found["decode_tokens_per_s"]
    assert low <= published[0]
    assert published[1] <= high <= found["roofline_tokens_per_s"]
    assert found["at_full_context"] <= high


def test_what_is_expected_is_explained() -> None:
    found = expected(load_of("qwen3.5-397b-a17b-fp8"), GB10, gpus=4, hosts=4, tensor_parallel=4, context=131072)
    assert found["roofline_tokens_per_s"] == 64.2
    assert "17 GB of weights per token over 4 x 273 GB/s allow 64.2 tokens/s" in found["why"]
    assert "120 all-reduces of 8 KiB" in found["why"]
    alone = expected(load_of("llama-3.1-8b-fp8"), GB10, gpus=1, hosts=1, tensor_parallel=1, context=8192)
    assert "all-reduces" not in alone["why"]


MODELS = st.sampled_from([load_of(name) for name in LOADS])
BOARDS = st.sampled_from(list(HARDWARE.values()))


@given(
    MODELS,
    BOARDS,
    st.integers(1, 8),
    st.sets(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 32])),
    st.integers(1, 2**20),
    st.floats(0.01, 100),
)
def test_only_legal_and_fitting_sizes_are_proposed(
    load: ModelLoad, board: dict[str, Any], hosts: int, legal: set[int], context: int, price: float
) -> None:
    gpus = board["gpus"] * hosts
    fits = fitting(load, board)
    entries = advise(
        load,
        board,
        gpus=gpus,
        hosts=hosts,
        legal=sorted(legal),
        fits=fits,
        context=context,
        price_per_gpu_hour=price,
    )
    for entry in entries:
        assert entry["why"]
        assert {option["tp"] for option in entry["options"]} == {size for size in legal if size <= gpus}
        if entry["tensor_parallel"] is None:
            continue
        size = entry["tensor_parallel"]
        assert size in legal
        assert fits(size).fits
        assert 1 <= size * entry["replicas"] <= gpus
        assert entry["tokens_per_s"] > 0
        assert entry["cost_per_million_tokens"] >= 0
        assert entry["ttft_ms"] > 0
        chosen = next(option for option in entry["options"] if option["tp"] == size)
        assert chosen["rejected"] is None


@given(st.floats(0.1, 1e6), st.integers(1, 1024), st.floats(0.01, 1000), st.floats(1, 100))
def test_cost_scales_with_the_price(speed: float, gpus: int, price: float, factor: float) -> None:
    one, more = cost_per_million(speed, gpus, price), cost_per_million(speed, gpus, price * factor)
    assert one is not None
    assert more is not None
    assert more == pytest.approx(one * factor)


def test_requests_at_once_are_those_the_fit_counts() -> None:
    """A hybrid model's states and whole blocks: far fewer short requests than the cache has tokens for."""
    load = load_of("qwen3.5-397b-a17b-fp8")
    asked: list[int] = []

    def requests(length: int) -> int:
        asked.append(length)
        return 38 if length == 2304 else 3

    def entries(fit: FitAt) -> dict[str, dict[str, Any]]:
        found = advise(load, GB10, gpus=4, hosts=4, legal=[4], fits=lambda _: fit, context=131_072)
        return {entry["workload"]: entry for entry in found}

    counted, plain = entries(FitAt(True, 356_195, "", requests)), entries(FitAt(True, 356_195))
    assert (counted["batch"]["concurrency"], plain["batch"]["concurrency"]) == (38, 154)
    assert counted["batch"]["tokens_per_s"] < plain["batch"]["tokens_per_s"]
    assert counted["chat"]["concurrency"] <= 3
    assert set(asked) == {1280, 2304, 131_072}


def test_what_is_said_is_what_is_counted() -> None:
    found = advice("llama-3.3-70b-bf16", HGX, gpus=8, context=4096)["long-context"]
    assert f"{found['concurrency']} requests of 4096 at a time" in found["why"]


def test_drafted_tokens_are_part_of_what_is_expected() -> None:
    load = replace(load_of("qwen3.5-397b-a17b-fp8"), draft=Draft(2.4e9, 1.3e9))
    place: dict[str, Any] = {"gpus": 4, "hosts": 4, "tensor_parallel": 4, "context": 8192}
    plain, drafted = (expected(load, HARDWARE["gb10"], **place, speculation=one) for one in (None, Speculation(2)))
    assert drafted["decode_tokens_per_s"][1] > 1.1 * plain["decode_tokens_per_s"][1]
    assert "2.44 tokens per step" in drafted["why"]
