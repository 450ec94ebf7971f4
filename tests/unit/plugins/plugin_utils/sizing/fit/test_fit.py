# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.activation import batch_defaults
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.budget import Fit, fit, refused_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.checks import (
    START_RESERVE_MIB,
    default_share,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.kv_cache import cache_layout
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.config import read_config
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.memory import (
    kv_bytes_per_token,
    state_bytes_per_sequence,
    total_weight_bytes,
    weight_bytes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape
from hypothesis import given
from hypothesis import strategies as st

GIB = 1 << 30
CATALOG = load_catalog([Path(__file__).parents[6] / "catalog"])
H100 = CATALOG["hardware"]["h100-sxm-8"]
GB10 = CATALOG["hardware"]["gb10"]
TINY: dict[str, Any] = {
    "model_type": "qwen3",
    "dtype": "float32",
    "num_hidden_layers": 2,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 1024,
    "max_position_embeddings": 512,
}


def shape_of(config: dict[str, Any], name: str = "sample") -> ModelShape:
    errors = PlanErrors()
    shape = read_config(config, name, errors)
    assert shape is not None, errors.found
    return shape


SHAPES = {name: shape_of(entry["config"], name) for name, entry in CATALOG["models"].items()}


def identifiers(found: Fit) -> set[str]:
    return {one["id"] for one in found.errors}


def test_the_lab_models_cache_is_what_the_engine_reports() -> None:
    """vLLM on CPU: blocks of 128 tokens, 64 MiB a rank, one float32 KV head of 64 in each of two layers."""
    found = fit(
        shape_of(TINY),
        GB10,
        gpus=4,
        tensor_parallel=4,
        context=256,
        max_num_seqs=4,
        kv_cache_bytes=64 * 1024 * 1024,
        block_tokens=128,
        dtype="float32",
    )
    assert found.kv_bytes_per_token == 2 * 2 * 64 * 4
    assert found.kv_tokens == 65_536
    assert found.max_concurrency == 256
    assert found.fits


@pytest.mark.parametrize(
    ("model", "hardware", "gpus", "ranks", "context", "fits"),
    [
        ("qwen3.5-397b-a17b-fp8", "gb10", 4, 4, 131072, True),
        ("qwen3.5-397b-a17b-fp8", "gb10", 2, 2, 8192, False),
        ("qwen3.5-397b-a17b-fp8", "h100-sxm-8", 4, 4, 8192, False),
        ("qwen3.5-397b-a17b-fp8", "h100-sxm-8", 8, 8, 131072, True),
        ("qwen3-235b-a22b-fp8", "h100-sxm-8", 4, 4, 32768, True),
        ("deepseek-v4-pro", "h100-sxm-8", 4, 4, 8192, False),
        ("deepseek-v4-pro", "h100-sxm-8", 8, 8, 8192, False),
        ("deepseek-v4-flash", "h100-sxm-8", 4, 4, 131072, True),
        ("llama-4-maverick-fp8", "h100-sxm-8", 4, 4, 8192, False),
        ("llama-4-maverick-awq", "h100-sxm-8", 4, 4, 32768, True),
        ("llama-4-maverick-fp8", "h100-sxm-8", 8, 8, 131072, True),
        ("llama-3.3-70b", "h100-sxm-8", 4, 4, 131072, True),
        ("llama-3.3-70b", "h100-sxm-8", 1, 1, 8192, False),
        ("qwen2.5-72b-fp8-dynamic", "h100-sxm-8", 8, 8, 32768, True),
    ],
)
def test_what_fits_is_what_is_known_to_fit(
    model: str, hardware: str, gpus: int, ranks: int, context: int, fits: bool
) -> None:
    found = fit(SHAPES[model], CATALOG["hardware"][hardware], gpus=gpus, tensor_parallel=ranks, context=context)
    assert found.fits == fits, found.errors
    assert (found.short_bytes == 0) == fits
    assert identifiers(found) <= {"fit.too-big", "fit.context"}


def test_four_bits_of_a_72b_model_over_eight_gpus_are_five_gigabytes_each() -> None:
    """Not the 38 GB that a write-up names, which is the whole model."""
    four = {**CATALOG["models"]["qwen2.5-72b"]["config"], "quantization_config": {"quant_method": "awq", "bits": 4}}
    assert weight_bytes(shape_of(four), 8) == pytest.approx(5.3e9, rel=0.05)


def test_unified_memory_leaves_the_operating_system_its_share() -> None:
    found = fit(SHAPES["qwen3.5-397b-a17b-fp8"], GB10, gpus=4, tensor_parallel=4, context=131072)
    total = GB10["os_visible_mib"] << 20
    assert found.total_bytes == total
    assert found.os_bytes == total - found.usable_bytes
    assert found.usable_bytes == pytest.approx(0.82 * total, rel=1e-6)
    memory = found.document()["memory"]
    parts = ("os_bytes", "weights_bytes", "activation_bytes", "runtime_bytes", "kv_bytes", "free_bytes")
    assert sum(memory[part] for part in parts) == total


class TestShare:
    """On unified memory the share follows from what was free when an engine looked: it ends where it finds less."""

    def test_a_gb10_is_told_less_than_its_ceiling(self) -> None:
        assert default_share(GB10) == 0.82
        assert default_share(GB10) * GB10["os_visible_mib"] <= GB10["free_at_start_mib"] - START_RESERVE_MIB

    def test_other_hardware_is_as_before(self) -> None:
        assert default_share(H100) == 0.9
        assert default_share({**GB10, "free_at_start_mib": None}) == GB10["utilisation_ceiling"]

    @given(st.integers(1, 1 << 28), st.integers(1, 1 << 28), st.floats(0.01, 1))
    def test_it_is_never_above_the_ceiling_nor_what_was_free(self, free: int, total: int, ceiling: float) -> None:
        hardware = {"unified": True, "utilisation_ceiling": ceiling, "os_visible_mib": total, "free_at_start_mib": free}
        share = default_share(hardware)
        assert 0 < share <= ceiling
        if free > START_RESERVE_MIB + total // 50:
            assert share * total <= free

    def test_a_share_that_was_not_free_elsewhere_is_told(self) -> None:
        settings: dict[str, Any] = {"gpus": 4, "tensor_parallel": 4, "context": 8192, "max_num_seqs": 16}
        shape = SHAPES["qwen3.5-397b-a17b-fp8"]
        (told,) = [note for note in fit(shape, GB10, utilisation=0.85, **settings).notes if "free at its start" in note]
        assert "103.4 GiB" in told
        assert "101.3 GiB" in told
        assert "0.82 leaves a reserve" in told
        for share in (None, 0.82, 0.83):
            found = fit(shape, GB10, utilisation=share, **settings)
            assert found.fits
            assert not any("free at its start" in note for note in found.notes)


class TestSequences:
    """vLLM ends after the load when a hybrid model's cache has fewer blocks than max_num_seqs."""

    SHAPE = SHAPES["qwen3.5-397b-a17b-fp8"]
    ON_FOUR: ClassVar[dict[str, Any]] = {
        "gpus": 4,
        "tensor_parallel": 4,
        "context": 131072,
        "max_num_batched_tokens": 4096,
        "vision": False,
    }

    def test_a_gb10_has_the_smallest_defaults_as_nvml_reports_no_memory(self) -> None:
        found = fit(SHAPES["llama-3.3-70b"], GB10, gpus=4, tensor_parallel=4, context=8192)
        assert found.max_num_seqs == 256
        assert fit(SHAPES["llama-3.3-70b"], H100, gpus=4, tensor_parallel=4, context=8192).max_num_seqs == 1024
        assert batch_defaults(None) == (2048, 256)

    def test_more_requests_than_blocks_are_refused_with_what_would_do(self) -> None:
        found = fit(self.SHAPE, GB10, **self.ON_FOUR, utilisation=0.85, max_num_seqs=1024)
        assert identifiers(found) == {"fit.sequences"}
        assert "has 231 blocks" in found.errors[0]["found"]
        assert "set max_num_seqs to 64, at most 231" in found.errors[0]["remedy"]
        again = fit(self.SHAPE, GB10, **self.ON_FOUR, utilisation=0.85, max_num_seqs=231)
        assert again.fits, "fewer requests leave more blocks"

    def test_what_nobody_asked_for_is_lowered_and_told(self) -> None:
        found = fit(self.SHAPE, GB10, **self.ON_FOUR)
        assert found.fits
        assert found.lowered_sequences
        assert found.max_num_seqs == 64
        assert found.document()["max_num_seqs"] == 64
        (told,) = [note for note in found.notes if "max_num_seqs is set to 64" in note]
        assert "its default of 256" in told

    def test_graphs_that_hold_no_whole_step_need_no_block_a_request(self) -> None:
        for settings in ({"graphs": False}, {"full_graphs": False}):
            on_four = {**self.ON_FOUR, **settings, "context": 8192}
            assert fit(self.SHAPE, GB10, **on_four, max_num_seqs=512).fits
            assert not fit(self.SHAPE, GB10, **on_four).lowered_sequences

    def test_other_models_have_no_such_blocks(self) -> None:
        found = fit(SHAPES["llama-3.3-70b"], GB10, gpus=4, tensor_parallel=4, context=8192, max_num_seqs=4096)
        assert found.fits

    def test_a_cache_that_is_too_small_says_that_and_nothing_else(self) -> None:
        found = fit(self.SHAPE, GB10, **self.ON_FOUR, max_num_seqs=1024, kv_cache_bytes=GIB // 8)
        assert identifiers(found) == {"fit.context"}

    @given(
        st.sampled_from(sorted(name for name, shape in SHAPES.items() if shape.linear is not None)),
        st.sampled_from([(GB10, 4), (GB10, 8), (H100, 8)]),
        st.sampled_from([4096, 32768, 262144]),
        st.sampled_from(["auto", "fp8"]),
        st.sampled_from([0, 1, 2]),
    )
    def test_what_is_planned_always_has_its_blocks(
        self, model: str, on: tuple[dict[str, Any], int], context: int, kv_dtype: str, guessed: int
    ) -> None:
        hardware, gpus = on
        found = fit(
            SHAPES[model],
            hardware,
            gpus=gpus,
            tensor_parallel=gpus,
            context=context,
            kv_dtype=kv_dtype,
            speculative_tokens=guessed,
        )
        if found.fits:
            assert found.pool is not None
            assert found.max_num_seqs <= found.pool.blocks
            assert not found.lowered_sequences or 2 * found.max_num_seqs <= found.pool.blocks


PARTS = ("os_bytes", "weights_bytes", "activation_bytes", "runtime_bytes", "kv_bytes")


def test_a_fixed_cache_takes_nothing_from_the_operating_system() -> None:
    """22 GiB on top of 98 of 121.7 would leave the system less than two: the ceiling holds for a fixed cache too."""
    shape = SHAPES["qwen3.5-397b-a17b-fp8"]
    settings: dict[str, Any] = {"gpus": 4, "tensor_parallel": 4, "context": 8192, "max_num_seqs": 16}
    free = fit(shape, GB10, **settings, utilisation=GB10["utilisation_ceiling"])
    room = free.usable_bytes - free.weights_bytes - free.activation_bytes - free.runtime_bytes
    held = fit(shape, GB10, **settings, utilisation=0.3, kv_cache_bytes=room)
    assert held.fits, "the engine does not look at the utilisation then"
    assert sum(getattr(held, part) for part in PARTS) <= held.total_bytes
    for more in (room + 1, 22 * GIB):
        found = fit(shape, GB10, **settings, kv_cache_bytes=more)
        assert identifiers(found) == {"fit.too-big"}
        assert found.short_bytes == more - room
        assert f"to {room} bytes" in found.errors[0]["remedy"]


def test_a_fixed_cache_of_the_wrong_size_is_refused_with_the_sizes_that_would_do() -> None:
    def at(size: int) -> Fit:
        shape = SHAPES["qwen3.5-397b-a17b-fp8"]
        settings: dict[str, Any] = {"gpus": 8, "tensor_parallel": 8, "max_num_seqs": 32}
        return fit(shape, H100, **settings, context=131_072, kv_cache_bytes=size)

    huge = at(900 * GIB)
    (one,) = huge.errors
    assert one["id"] == "fit.too-big"
    assert "900.0 GiB cache as set" in one["found"]
    assert f"{huge.short_bytes / GIB:.1f} GiB are missing" in one["found"]
    assert "context length" not in one["remedy"]
    assert huge.longest_context == 0
    low, high = (int(word) for word in one["remedy"].split(" bytes")[0].split(" from ")[1].split(" to "))
    assert at(low).fits
    assert at(high).fits
    small = at(low // 2)
    assert identifiers(small) == {"fit.context"}
    assert f"from {low} to {high} bytes" in small.errors[0]["remedy"]


def test_a_context_beyond_the_models_own_is_refused() -> None:
    shape = SHAPES["llama-3.3-70b"]
    (one,) = fit(shape, H100, gpus=8, tensor_parallel=8, context=131_073).errors
    assert one["id"] == "fit.beyond-model"
    assert "was made for 131072" in one["found"]
    assert "131072 or less" in one["remedy"]
    assert fit(shape, H100, gpus=8, tensor_parallel=8, context=131_072).fits
    both = fit(shape, H100, gpus=2, tensor_parallel=2, context=400_000)
    assert identifiers(both) == {"fit.beyond-model", "fit.context"}
    open_ended = shape_of({key: value for key, value in TINY.items() if key != "max_position_embeddings"})
    assert fit(open_ended, H100, gpus=1, tensor_parallel=1, context=100_000).fits


@pytest.mark.parametrize("field", [{}, {"os_visible_mib": None}, {"os_visible_mib": True}, {"memory_mib": 124_620}])
def test_unified_memory_of_unknown_size_is_refused(field: dict[str, Any]) -> None:
    found = fit(SHAPES["llama-3.3-70b"], {"name": "x", "unified": True, **field}, gpus=1, tensor_parallel=1)
    (one,) = found.errors
    assert one["id"] == "fit.memory-unknown"
    assert "os_visible_mib" in one["remedy"]
    assert found.total_bytes == found.short_bytes == 0


@pytest.mark.parametrize(("word", "factor"), [(None, 1), ("auto", 1), ("half", 1), ("float32", 2), ("float", 2)])
def test_the_engines_type_decides_about_weights_and_cache(word: str | None, factor: int) -> None:
    shape = SHAPES["llama-3.3-70b"]
    plain, found = (fit(shape, H100, gpus=8, tensor_parallel=8, context=4096, dtype=one) for one in (None, word))
    assert found.weights_bytes == factor * plain.weights_bytes
    assert found.kv_bytes_per_token == factor * plain.kv_bytes_per_token
    narrow = fit(shape, H100, gpus=8, tensor_parallel=8, context=4096, dtype=word, kv_dtype="fp8")
    assert narrow.kv_bytes_per_token * 2 == plain.kv_bytes_per_token


def test_more_than_the_ceiling_of_unified_memory_is_refused() -> None:
    found = fit(SHAPES["qwen3.5-397b-a17b-fp8"], GB10, gpus=4, tensor_parallel=4, context=4096, utilisation=0.9)
    assert identifiers(found) == {"fit.utilisation"}
    assert not found.fits


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"gpus": 0}, "gpus"),
        ({"gpus": True}, "gpus"),
        ({"gpus": 10**30}, "gpus"),
        ({"tensor_parallel": -1}, "tensor_parallel"),
        ({"tensor_parallel": "4"}, "tensor_parallel"),
        ({"context": 0}, "context"),
        ({"context": 1.5}, "context"),
        ({"utilisation": math.nan}, "utilisation"),
        ({"utilisation": 0}, "utilisation"),
        ({"utilisation": "0.9"}, "utilisation"),
        ({"kv_cache_bytes": -5}, "kv_cache_bytes"),
        ({"max_num_seqs": []}, "max_num_seqs"),
        ({"speculative_tokens": 1000}, "speculative_tokens"),
        ({"kv_dtype": 8}, "kv_dtype"),
        ({"kv_dtype": ""}, "kv_dtype"),
        ({"kv_dtype": "garbage"}, "kv_dtype"),
        ({"kv_dtype": "fp8_garbage"}, "kv_dtype"),
        ({"dtype": "float8"}, "dtype"),
        ({"dtype": 16}, "dtype"),
        ({"dtype": ["float32"]}, "dtype"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, Any], word: str) -> None:
    wanted = {"gpus": 1, "tensor_parallel": 1, **settings}
    found = fit(shape_of(TINY), H100, **wanted)
    assert "fit.arguments" in identifiers(found)
    assert any(word in one["found"] for one in found.errors)
    json.dumps(found.document(), allow_nan=False)


def test_a_float32_checkpoint_is_loaded_in_16_bits_unless_told_otherwise() -> None:
    shape = shape_of(TINY)
    auto, none, narrow, wide = (
        fit(shape, H100, gpus=1, tensor_parallel=1, dtype=word) for word in ("auto", None, "bfloat16", "float32")
    )
    assert auto == none
    assert auto.weights_bytes == narrow.weights_bytes == wide.weights_bytes // 2
    assert auto.kv_bytes_per_token == narrow.kv_bytes_per_token == wide.kv_bytes_per_token // 2
    assert any("--dtype float32" in note for note in auto.notes)
    assert narrow.notes == wide.notes == ()


@pytest.mark.parametrize(
    ("word", "bits"),
    [
        ("bfloat16", 16),
        ("FP8", 8),
        ("fp8_e4m3", 8),
        ("fp8_per_token_head", 8 + 4 * 8 / 128),
        ("int8_per_token_head", 8 + 4 * 8 / 128),
        ("int4_per_token_head", 4 + 4 * 8 / 128),
        ("nvfp4", 4.5),
        ("turboquant_k8v4", 8),
    ],
)
def test_each_type_of_cache_is_counted_with_its_scales(word: str, bits: float) -> None:
    shape = SHAPES["llama-3.3-70b"]
    found = fit(shape, H100, gpus=8, tensor_parallel=8, context=4096, kv_dtype=word)
    assert found.fits
    assert found.kv_bytes_per_token == 80 * 2 * 128 * bits / 8
    assert any("one byte" in note for note in found.notes) == word.startswith("turboquant")


def test_every_type_the_engines_know_can_be_asked_for() -> None:
    for engine in ("vllm-0.32.0", "vllm-0.31.0", "sglang-0.5.23"):
        schema = json.loads((Path(__file__).parents[6] / f"catalog/engines/{engine}.json").read_text())
        (flag,) = (one for one in schema["flags"] if "--kv-cache-dtype" in one["names"])
        for word in flag["choices"]:
            assert fit(SHAPES["deepseek-r1"], H100, gpus=16, tensor_parallel=16, context=64, kv_dtype=word).fits, word


def test_a_stage_of_a_pipeline_caches_its_own_layers() -> None:
    shape = shape_of({**TINY, "num_hidden_layers": 32})
    one = fit(shape, H100, gpus=3, tensor_parallel=1)
    three = fit(shape, H100, gpus=3, tensor_parallel=1, pipeline_parallel=3)
    assert three.kv_bytes_per_token * 32 == one.kv_bytes_per_token * 11
    assert cache_layout(shape.with_dtype(None), 1, 3).bytes_per_block == 16 * three.kv_bytes_per_token


def test_a_request_of_another_length_is_counted_in_blocks_and_with_its_states() -> None:
    shape = SHAPES["qwen3.5-397b-a17b-fp8"]
    settings: dict[str, Any] = {"gpus": 4, "tensor_parallel": 4}
    long, short = (fit(shape, GB10, **settings, context=size) for size in (131_072, 2304))
    assert long.concurrency(2304) == short.max_concurrency == short.concurrency(2304)
    assert long.kv_tokens // 2304 > 3 * long.concurrency(2304), "states and whole blocks are most of a short request"
    assert long.streams(2304) == int(short.max_concurrency)
    assert fit(shape, GB10, **settings, context=131_072, max_num_seqs=16).streams(2304) == 16


def test_hardware_without_memory_is_refused() -> None:
    found = fit(shape_of(TINY), {"name": "odd", "unified": False, "memory_mib": None}, gpus=1, tensor_parallel=1)
    assert "fit.memory-unknown" in identifiers(found)


def test_a_refusal_says_what_would_fit() -> None:
    found = fit(SHAPES["deepseek-v4-pro"], H100, gpus=4, tensor_parallel=4, context=8192)
    (one,) = found.errors
    assert "GiB are missing" in one["found"]
    assert "tensor parallel 8 and pipeline parallel 2 on 16 GPUs" in one["remedy"]
    assert fit(SHAPES["deepseek-v4-pro"], H100, gpus=16, tensor_parallel=8, pipeline_parallel=2, context=8192).fits
    short = fit(SHAPES["llama-3.3-70b"], H100, gpus=2, tensor_parallel=2, context=131072)
    (one,) = short.errors
    assert one["id"] == "fit.context"
    assert str(short.longest_context) in one["remedy"]
    assert fit(SHAPES["llama-3.3-70b"], H100, gpus=2, tensor_parallel=2, context=short.longest_context).fits


def test_a_document_always_has_every_key() -> None:
    found = fit(shape_of(TINY), H100, gpus=1, tensor_parallel=1).document()
    errors = PlanErrors()
    errors.add("a.b", "found", "rule", "remedy")
    empty = refused_document(errors, ["note"])
    assert found.keys() == empty.keys()
    assert found["memory"].keys() == empty["memory"].keys()
    assert empty["errors"] == errors.found
    assert not empty["fits"]


def test_kv_heads_are_replicated_and_fp8_halves_the_cache() -> None:
    shape = SHAPES["qwen3-235b-a22b-fp8"]
    assert kv_bytes_per_token(shape, 1) == 94 * 2 * 4 * 128 * 2
    assert kv_bytes_per_token(shape, 4) == kv_bytes_per_token(shape, 8) == 94 * 2 * 128 * 2
    assert kv_bytes_per_token(shape, 4, "fp8") * 2 == kv_bytes_per_token(shape, 4)
    assert kv_bytes_per_token(SHAPES["qwen3.5-397b-a17b-fp8"], 4, "fp8") == 15 * 2 * 256
    assert kv_bytes_per_token(SHAPES["deepseek-r1"], 8) == 61 * 576 * 2


def test_only_full_attention_grows_and_linear_attention_keeps_a_state() -> None:
    shape = SHAPES["qwen3.5-397b-a17b-fp8"]
    convolution, state = 12288 // 4 * 3 * 2, 64 // 4 * 128 * 128 * 4
    assert state_bytes_per_sequence(shape, 4) == 45 * (convolution + state)
    assert state_bytes_per_sequence(SHAPES["llama-3.3-70b"], 4) == 0
    layout = cache_layout(shape, 4)
    assert layout.block_tokens == 1056
    assert layout.bytes_per_block == 15 * 1056 * 1024


def test_layers_for_further_tokens_and_the_vision_tower_are_loaded_on_demand() -> None:
    shape = SHAPES["qwen3.5-397b-a17b-fp8"]
    bare = weight_bytes(shape, 4, vision=False)
    assert bare < weight_bytes(shape, 4) < weight_bytes(shape, 4, mtp=True)
    assert weight_bytes(shape, 1, mtp=True) == pytest.approx(total_weight_bytes(shape), rel=0.001)


def test_expert_parallel_and_pipelines_share_the_weights() -> None:
    shape = SHAPES["qwen3-235b-a22b-fp8"]
    assert weight_bytes(shape, 8, 1, True) == pytest.approx(weight_bytes(shape, 8), rel=0.02)
    assert weight_bytes(shape, 4, 2) == pytest.approx(weight_bytes(shape, 4) / 2, rel=0.03)


MODEL = st.sampled_from(sorted(SHAPES))


@given(
    MODEL | st.just("windows"),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 9),
    st.integers(1, 1_000_000),
    st.sampled_from(["auto", "fp8", "nvfp4"]),
)
def test_the_tokens_a_gpu_holds_fit_its_memory(name: str, ranks: int, stages: int, context: int, word: str) -> None:
    windows = {**TINY, "model_type": "mistral", "sliding_window": 64, "num_attention_heads": 8}
    shape = SHAPES[name] if name in SHAPES else shape_of(windows)
    found = fit(
        shape,
        H100,
        gpus=ranks * stages,
        tensor_parallel=ranks,
        pipeline_parallel=stages,
        context=context,
        kv_dtype=word,
    )
    assert found.kv_bytes_per_token * found.kv_tokens <= found.kv_bytes <= found.total_bytes


@given(MODEL, st.integers(1, 200_000), st.integers(1, 200_000), st.sampled_from([1, 2, 4, 8]))
def test_more_context_never_means_more_concurrency(name: str, one: int, two: int, ranks: int) -> None:
    less, more = sorted((one, two))
    at = [fit(SHAPES[name], H100, gpus=8, tensor_parallel=ranks, context=size) for size in (less, more)]
    assert at[1].max_concurrency <= at[0].max_concurrency
    assert not (at[1].fits and not at[0].fits)
    assert at[0].longest_context == at[1].longest_context


@given(MODEL, st.floats(0.05, 1), st.floats(0.05, 1), st.integers(1, 131_072))
def test_more_utilisation_never_means_less_cache(name: str, one: float, two: float, context: int) -> None:
    less, more = sorted((one, two))
    at = [
        fit(SHAPES[name], H100, gpus=8, tensor_parallel=8, context=context, utilisation=share) for share in (less, more)
    ]
    assert at[0].kv_tokens <= at[1].kv_tokens
    assert at[0].kv_bytes <= at[1].kv_bytes


@given(MODEL, st.sampled_from([1, 2, 4]))
def test_cutting_further_never_makes_a_gpus_share_larger(name: str, ranks: int) -> None:
    shape = SHAPES[name]
    assert weight_bytes(shape, 2 * ranks) <= weight_bytes(shape, ranks)
    assert kv_bytes_per_token(shape, 2 * ranks) <= kv_bytes_per_token(shape, ranks)


@given(MODEL, st.integers(1, 1_000_000))
def test_cache_tokens_are_whole_blocks_and_fit_the_pool(name: str, context: int) -> None:
    found = fit(SHAPES[name], H100, gpus=8, tensor_parallel=8, context=context, kv_cache_bytes=3 * GIB)
    layout = cache_layout(SHAPES[name], 8)
    assert found.kv_bytes % layout.bytes_per_block == 0
    assert found.kv_bytes <= 3 * GIB
    if layout.growing == 1 and not layout.fixed:
        assert found.kv_tokens % layout.block_tokens == 0
