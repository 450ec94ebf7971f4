# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.static_fraction import (
    graph_default,
    prefill_default,
    reserve_mib,
    static_fraction,
)
from hypothesis import given
from hypothesis import strategies as st

H100 = 81559
H200 = 143771
RECORD = json.loads(
    (Path(__file__).parents[4] / "fixtures/performance/h200-sglang-0.5.16.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    ("memory", "tokens"), [(24000, 2048), (48000, 4096), (H100, 8192), (143771, 8192), (190000, 16384)]
)
def test_the_prefill_that_sglang_chooses(memory: int, tokens: int) -> None:
    assert prefill_default(memory) == tokens


def test_what_activations_and_graphs_take_of_an_h100() -> None:
    # 512 + 1.5 * 8192 + 2 * 512 + 128 * 8
    assert reserve_mib(H100, 8, 8, None, None, False) == 14848
    assert reserve_mib(H100, 8, 8, None, None, True) == 14848 + 2048
    assert reserve_mib(H100, 1, 1, 2048, 16, False) == 10240, "on a large GPU never less than 10 GiB"
    assert reserve_mib(24000, 1, 1, None, 8, False) == 512 + 16 + 128 + 3072
    assert graph_default(H100, 1) == 256


def test_the_fraction_is_the_share_without_them() -> None:
    assert static_fraction(0.9, H100, 14848) == 0.717
    assert static_fraction(0.1, H100, 14848) == 0.05


@given(
    share=st.floats(0.05, 1.0),
    memory=st.integers(16000, 300000),
    gpus=st.sampled_from([1, 2, 4, 8, 16]),
    prefill=st.one_of(st.none(), st.integers(1, 65536)),
    sequences=st.one_of(st.none(), st.integers(1, 2048)),
)
def test_weights_cache_and_the_rest_never_take_more_than_the_share(
    share: float, memory: int, gpus: int, prefill: int | None, sequences: int | None
) -> None:
    reserve = reserve_mib(memory, gpus, gpus, prefill, sequences, False)
    fraction = static_fraction(share, memory, reserve)
    assert fraction == 0.05 or fraction * memory + reserve <= share * memory
    assert reserve >= 512 + 1.5 * 2048


def test_a_server_on_an_h200_took_what_it_was_given() -> None:
    fraction = static_fraction(RECORD["utilisation"], H200, reserve_mib(H200, 1, 1, None, None, False))
    assert (fraction, prefill_default(H200)) == (RECORD["mem_fraction_static"], RECORD["chunked_prefill_size"])
    cache = (fraction * RECORD["free_at_start_gib"] - RECORD["weights_gib"]) * 2**30
    assert cache / RECORD["kv_bytes_per_token"] == pytest.approx(RECORD["cache_tokens"], rel=0.002)
    taken = RECORD["free_at_start_gib"] - RECORD["free_when_ready_gib"]
    assert taken <= RECORD["utilisation"] * H200 / 1024
