# SPDX-License-Identifier: Apache-2.0
"""Check that an engine can load a model at a parallel layout: heads, KV heads, quantisation blocks, world size."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.parallel_sizes import (
    Place,
    heads_legal,
    legal_tensor_parallel,
    ways_out,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.shards import broken_shards, uneven_sizes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape

ERRORS = {
    "tp.size": "A parallel size is the number of GPUs a model is cut over: a positive whole number.",
    "tp.heads": (
        "Tensor parallelism gives each GPU whole attention heads. Every engine refuses a size that does not divide "
        "their number."
    ),
    "tp.kv-heads": (
        "Each GPU holds whole KV heads: either the size divides their number, or it is a multiple of it and every head "
        "is kept several times."
    ),
    "tp.blocks": (
        "Block-quantised weights have one scale for a block of, say, 128 x 128. A shard that ends inside a block has "
        "no scale of its own; the engine raises 'is not divisible by weight quantization block' while it loads."
    ),
    "tp.groups": (
        "Weights quantised in groups have one scale for so many inputs. A shard that ends inside a group has none."
    ),
    "tp.sizes": (
        "Engines cut the feed-forward layers, the experts and the vocabulary (padded to a multiple of 64) into equal "
        "parts. vLLM asserts 'is not divisible by' while it builds the model if there is a remainder."
    ),
    "tp.experts": "With expert parallelism each GPU holds whole experts, so the size must divide their number.",
    "pp.layers": "Each stage of a pipeline holds at least one layer.",
    "world.size": (
        "Tensor times pipeline parallel is the number of processes, and each needs a GPU of its own on one of the "
        "hosts."
    ),
    "world.uneven": "A tensor-parallel group uses the same number of GPUs on every host it spans.",
    "speculative.mtp": (
        "Speculative decoding by multi-token-prediction layers needs a checkpoint that has them, and a small "
        "number of draft tokens."
    ),
}
MOST_SPECULATIVE = 16
_NO_WAY = "serve another model: no tensor and pipeline parallel size on these GPUs is legal for this one"
WayOut = Callable[[], str]
"""Describes what to set instead; computed only if something is refused."""


def check_parallel(  # noqa: PLR0913 - independent settings, all passed by name
    shape: ModelShape,
    *,
    tensor_parallel: int,
    pipeline_parallel: int = 1,
    gpus: int,
    gpus_per_host: int = 1,
    hosts: int | None = None,
    replicas: int = 1,
    every_gpu: bool = False,
    expert_parallel: bool = False,
    speculative: Mapping[str, Any] | None = None,
    errors: PlanErrors,
) -> None:
    """Refuse every way in which these settings cannot work, in any version of an engine.

    `replicas` and `every_gpu` (a launch over several hosts leaves no GPU free) only decide which remedies are offered.
    """
    sizes = {"tensor parallel": tensor_parallel, "pipeline parallel": pipeline_parallel, "number of GPUs": gpus}
    wrong = {name: one for name, one in sizes.items() if not _is_size(one)}
    for name, one in wrong.items():
        errors.add(
            "tp.size",
            f"the {name} is {one!r}"[:80],
            f"the {name} is a whole number from 1 to 65536",
            f"correct the {name}",
        )
    if wrong:
        return
    place = Place(gpus, gpus_per_host if _is_size(gpus_per_host) else 1, hosts, replicas, every_gpu)
    way = functools.cache(lambda: ways_out(shape, place, pipeline_parallel, expert_parallel) or _NO_WAY)
    _check_heads(shape, tensor_parallel, way, errors)
    _check_sizes(shape, tensor_parallel, expert_parallel, way, errors)
    _check_blocks(shape, tensor_parallel, expert_parallel, way, errors)
    _check_world(shape, tensor_parallel, pipeline_parallel, place, expert_parallel, way, errors)
    if expert_parallel:
        _check_experts(shape, tensor_parallel, way, errors)
    _check_speculative(shape, speculative, errors)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65_536


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _check_heads(shape: ModelShape, ranks: int, way: WayOut, errors: PlanErrors) -> None:
    if shape.heads % ranks:
        errors.add(
            "tp.heads",
            f"tensor parallel {ranks} over {shape.heads} attention heads of {shape.name}",
            "every GPU holds the same number of whole attention heads",
            way(),
        )
    elif not heads_legal(shape, ranks):
        linear = shape.linear
        if shape.compressed is not None:
            what = f"{shape.compressed.o_groups} groups of its output projection"
        elif linear is not None and (linear.key_heads % ranks or linear.value_heads % ranks):
            what = f"{linear.key_heads} key and {linear.value_heads} value heads of its linear attention"
        else:
            what = f"{shape.kv_heads} KV heads"
        errors.add(
            "tp.kv-heads",
            f"tensor parallel {ranks} over the {what} of {shape.name}",
            "the size divides the number of KV heads, or is a multiple of it and heads are replicated",
            way(),
        )


def _check_sizes(shape: ModelShape, ranks: int, expert_parallel: bool, way: WayOut, errors: PlanErrors) -> None:
    """Refuse sizes that are not divisible; skipped where an error about heads or blocks already covers them."""
    if not heads_legal(shape, ranks):
        return
    said = {name for name, _, _ in broken_shards(shape, ranks, expert_parallel)}
    uneven = [one for one in uneven_sizes(shape, ranks, expert_parallel) if one[0] not in said]
    if not uneven:
        return
    listed = "; ".join(f"{name} {size} / {ranks} = {size / ranks:.6g}" for name, size in uneven[:4])
    errors.add(
        "tp.sizes",
        f"tensor parallel {ranks} does not divide sizes of {shape.name}: {listed}",
        "every GPU holds an equal part of the feed-forward layers, the experts and the padded vocabulary",
        way(),
    )


def _check_blocks(shape: ModelShape, ranks: int, expert_parallel: bool, way: WayOut, errors: PlanErrors) -> None:
    broken = broken_shards(shape, ranks, expert_parallel)
    for identifier, block in (("tp.blocks", True), ("tp.groups", False)):
        formats = {one.name: one.fmt for one in shape.matrices}
        chosen = [one for one in broken if ((fmt := formats[one[0]]) is not None and (fmt.block is not None) == block)]
        if not chosen:
            continue
        listed = "; ".join(
            f"{name} {size} / {ranks} = {size / ranks:g}, which is {size / ranks / unit:g} x {unit}"
            for name, size, unit in chosen[:4]
        )
        errors.add(
            identifier,
            f"tensor parallel {ranks} cuts weights of {shape.name} inside a quantisation "
            f"{'block' if block else 'group'}: {listed}",
            f"every shard is a whole number of quantisation {'blocks' if block else 'groups'}",
            f"{way()}, or serve a variant quantised per channel or not at all",
        )


def _check_world(
    shape: ModelShape,
    ranks: int,
    stages: int,
    place: Place,
    expert_parallel: bool,
    way: WayOut,
    errors: PlanErrors,
) -> None:
    if stages > shape.layers:
        errors.add(
            "pp.layers",
            f"pipeline parallel {stages} over {shape.layers} layers of {shape.name}",
            "every stage holds at least one layer",
            way(),
        )
    world = ranks * stages
    if world > place.gpus:
        there = _many(place.gpus, "GPU")
        if place.whole and place.hosts is not None:
            there = f"{_many(place.hosts, 'host')} of {_many(place.gpus_per_host, 'GPU')}" + (
                f", which have {place.gpus}" if place.hosts > 1 and place.gpus_per_host > 1 else ""
            )
        changes = [way()]
        more = f"list {_many(-(-world // place.gpus_per_host), 'host')}" if place.whole else f"use {world} GPUs"
        legal = ranks in legal_tensor_parallel(shape, ranks, expert_parallel) and stages <= shape.layers
        grown = -(-world // place.gpus_per_host) * place.gpus_per_host
        if legal and Place(grown, place.gpus_per_host, None, place.replicas, place.every_gpu).holds(ranks, stages):
            changes.append(more)
        errors.add(
            "world.size",
            f"tensor parallel {ranks} x pipeline parallel {stages} = {world} processes on {there}",
            "every process needs a GPU of its own",
            ", or ".join(changes),
        )
    elif ranks > place.gpus_per_host and ranks % place.gpus_per_host:
        errors.add(
            "world.uneven",
            f"tensor parallel {ranks} over hosts of {place.gpus_per_host} GPUs",
            "a tensor-parallel group uses all GPUs of every host it spans, or stays within one",
            way(),
        )


def _check_experts(shape: ModelShape, ranks: int, way: WayOut, errors: PlanErrors) -> None:
    if shape.experts is None:
        errors.add(
            "tp.experts",
            f"expert parallel with {shape.name}, which has no experts",
            "expert parallelism spreads the experts of a mixture-of-experts model",
            "leave expert parallel out",
        )
    elif shape.experts.count % ranks:
        errors.add(
            "tp.experts",
            f"{shape.experts.count} experts over {ranks} GPUs",
            "every GPU holds the same number of whole experts",
            f"{way()}, or leave expert parallel out",
        )


def _check_speculative(shape: ModelShape, speculative: Mapping[str, Any] | None, errors: PlanErrors) -> None:
    if not speculative:
        return
    method = str(speculative.get("method", ""))[:40]
    if not method.endswith("mtp") and method not in ("nextn", "NEXTN"):
        return
    tokens = speculative.get("num_speculative_tokens", speculative.get("tokens"))
    if shape.mtp_layers < 1:
        errors.add(
            "speculative.mtp",
            f"speculative method {method} with {shape.name}, whose config has no multi-token-prediction layers",
            "the method mtp needs num_nextn_predict_layers or mtp_num_hidden_layers of at least 1",
            "leave the speculative settings out, or use a draft model",
        )
    elif tokens is not None and (
        isinstance(tokens, bool) or not isinstance(tokens, int) or not 1 <= tokens <= MOST_SPECULATIVE
    ):
        errors.add(
            "speculative.mtp",
            f"num_speculative_tokens is {str(tokens)[:30]}",
            f"the number of draft tokens is a whole number from 1 to {MOST_SPECULATIVE}",
            f"set num_speculative_tokens to {max(1, shape.mtp_layers)} or a little more",
        )
