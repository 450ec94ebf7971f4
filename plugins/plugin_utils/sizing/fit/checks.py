# SPDX-License-Identifier: Apache-2.0
"""Validate the inputs of the memory budget, and refuse a model that does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.activation import gib
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.fields import shown
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape

if TYPE_CHECKING:
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.budget import Fit

ERRORS = {
    "fit.model": "A model is an entry of the catalog, another name of one, or the path of a config.json.",
    "fit.hardware": "The memory of the GPUs comes from a hardware profile of the catalog.",
    "fit.arguments": (
        "Sizes, counts and shares are positive numbers in the range of real machines; anything else would give a "
        "meaningless memory budget."
    ),
    "fit.memory-unknown": (
        "What fits follows from the memory of a GPU. A driver reports none on unified memory; there the catalog has "
        "what the operating system sees."
    ),
    "fit.utilisation": (
        "On unified memory the engine's share is taken from the operating system. Above the ceiling the host hangs or "
        "its processes are killed, and a container limit does not count the GPU's memory. On other GPUs the rest "
        "is for CUDA graphs, NCCL and the driver."
    ),
    "fit.beyond-model": (
        "A model is trained on positions up to a limit, max_position_embeddings of its config.json. Engines refuse to "
        "start with a longer context, and if they are forced to, answers beyond the limit are noise."
    ),
    "fit.too-big": (
        "A GPU's share of the weights, the activations of a forward pass and the runtime must leave memory for a "
        "cache; without any, the engine exits at startup, after it has loaded everything."
    ),
    "fit.context": (
        "The cache must hold at least one request of the full context length; otherwise the engine refuses to start."
    ),
    "fit.sequences": (
        "A hybrid model keeps the state of every running request in a block of the cache. vLLM captures CUDA graphs "
        "for max_num_seqs requests, and exits if there are fewer blocks than that, after it has loaded everything."
    ),
}

MIB = 1 << 20
DEFAULT_UTILISATION = 0.9
START_RESERVE_MIB = 1536
"""Subtracted by the default share from the memory that was free at a start: starts differ by about a GiB."""
SPARE_BLOCKS = 1.25
"""Blocks per request of a hybrid model; with fewer, the engine's default number of requests is lowered."""
DTYPES = {
    "auto": None,
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "float32": "float32",
    "float": "float32",
}
"""Values of an engine's --dtype; `auto` is the model's own."""


def check_whole(key: str, value: object, most: int, errors: PlanErrors) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        shown = repr(value) if len(repr(value)) < 30 else "too long a number"
        errors.add(
            "fit.arguments",
            f"{key} is {shown}",
            f"{key} is a whole number from 1 to {most}",
            f"correct {key}",
        )
        return None
    return value


def check_kv_dtype(value: object, known: Iterable[str], errors: PlanErrors) -> str:
    """Return an engine's --kv-cache-dtype in lower case; `auto` where it is invalid."""
    words = ["auto", *known]
    if isinstance(value, str) and value.lower() in words:
        return value.lower()
    errors.add(
        "fit.arguments",
        f"kv_dtype is {shown(value)}",
        f"kv_dtype is one of {', '.join(words)}",
        "correct kv_dtype, or write auto for the model's own",
    )
    return "auto"


def check_dtype(value: object, errors: PlanErrors) -> str | None:
    """Return the type that an engine's --dtype means; None for the model's own."""
    if value is None or (isinstance(value, str) and value in DTYPES):
        return None if value is None else DTYPES[str(value)]
    errors.add(
        "fit.arguments",
        f"dtype is {shown(value)}",
        f"dtype is one of {', '.join(DTYPES)}",
        "correct dtype, or write auto for the model's own",
    )
    return None


def check_context(shape: ModelShape, tokens: int, errors: PlanErrors) -> None:
    """Refuse a request longer than what the model was made for, where its config has that limit."""
    if shape.context is None or tokens <= shape.context:
        return
    errors.add(
        "fit.beyond-model",
        f"a context of {tokens} tokens is requested, {shape.name} was made for {shape.context}",
        "a context is no longer than max_position_embeddings of the model's config.json, or its rope scaling",
        f"set the context length to {shape.context} or less, or choose a model with a longer context",
    )


def ceiling_of(hardware: Mapping[str, Any]) -> float:
    """Return the largest share of the memory an engine may take."""
    return float(hardware.get("utilisation_ceiling") or 1)


def above_ceiling(hardware: Mapping[str, Any]) -> str:
    """Describe what happens to an engine that takes more than the ceiling."""
    ceiling = ceiling_of(hardware)
    if hardware.get("unified"):
        return f"shares its memory with the operating system, which hangs or kills processes above {ceiling:g}"
    return (
        f"needs the memory above {ceiling:g} for CUDA graphs, NCCL and the driver: the engine counts only part of "
        "these and runs out of memory once all weights are loaded"
    )


def default_share(hardware: Mapping[str, Any]) -> float:
    """Return the default share of the memory for an engine.

    On unified memory the engine ends at once when less than its share is free, so the share follows from what was free
    on such machines when an engine started. It is rounded down to hundredths, as an operator would write it.
    """
    ceiling = ceiling_of(hardware)
    if not hardware.get("unified"):
        return min(DEFAULT_UTILISATION, ceiling)
    free, total = hardware.get("free_at_start_mib"), hardware.get("os_visible_mib")
    if not free or not total:
        return ceiling
    return min(ceiling, float(max(1, (free - START_RESERVE_MIB) * 100 // total)) / 100)


def share_notes(hardware: Mapping[str, Any], share: float, total: int) -> list[str]:
    """Return a note on a share that exceeds what was free at the start of other machines of this kind."""
    free = (hardware.get("free_at_start_mib") or 0) * MIB
    if not hardware.get("unified") or not free or share * total <= free:
        return []
    risky = (
        f"a share of {share:g} needs {gib(share * total)}: on {hardware.get('name', 'such hardware')} an engine has "
        f"found as little as {gib(free)} free at its start, and it exits if it finds less than its share; "
        f"{default_share(hardware):g} leaves a reserve"
    )
    return [risky]


def check_share(hardware: Mapping[str, Any], utilisation: float | None, errors: PlanErrors) -> float:
    """Validate the share of the memory the engine may take; the default or the ceiling replaces an invalid one."""
    ceiling = ceiling_of(hardware)
    if utilisation is None:
        return default_share(hardware)
    if isinstance(utilisation, bool) or not isinstance(utilisation, (int, float)) or not 0 < utilisation <= 1:
        errors.add(
            "fit.arguments",
            f"the utilisation is {utilisation!r}",
            "the utilisation is a number above 0 and at most 1",
            f"write it as {default_share(hardware):g}",
        )
        return default_share(hardware)
    if utilisation > ceiling:
        errors.add(
            "fit.utilisation",
            f"the utilisation is {utilisation:g}",
            f"{hardware.get('name', 'this hardware')} {above_ceiling(hardware)}",
            f"set the utilisation to {ceiling:g} or less",
        )
        return ceiling
    return float(utilisation)


def check_memory(hardware: Mapping[str, Any], errors: PlanErrors) -> int:
    """Return the bytes of a GPU as the driver reports them, or the OS for unified memory; 0 if unknown."""
    field = "os_visible_mib" if hardware.get("unified") else "memory_mib"
    value = hardware.get(field)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 30:
        meaning = (
            "on unified memory os_visible_mib is the part that the operating system sees, MemTotal of /proc/meminfo"
            if hardware.get("unified")
            else "memory_mib is the memory of a GPU as its driver reports it"
        )
        errors.add(
            "fit.memory-unknown",
            f"the hardware {hardware.get('name', 'profile')} has no {field}",
            meaning,
            f"add {field} to the hardware's catalog entry",
        )
        return 0
    return value * MIB


@dataclass(frozen=True)
class FixedCache:
    """A cache size set by the operator, compared with what is needed and available."""

    asked: int
    needed: int
    """Bytes of one request of the full context."""
    room: int
    """Bytes that everything else leaves."""

    @property
    def remedy(self) -> str:
        """The sizes that would work, if there are any."""
        if self.room < self.needed:
            return ""
        return f"set the cache (--kv-cache-memory-bytes) to a size from {self.needed} to {self.room} bytes"


def refuse_sequences(shape: ModelShape, asked: int, blocks: int, errors: PlanErrors) -> None:
    """Refuse more concurrent requests than the cache has blocks for their states."""
    errors.add(
        "fit.sequences",
        f"max_num_seqs is {asked}, and the cache of {shape.name} has {blocks} blocks",
        "each running request of a hybrid model keeps its state in a block of its own, and vLLM exits at startup if "
        "there are fewer of them than max_num_seqs",
        f"set max_num_seqs to {spare_sequences(blocks)}, at most {blocks}",
    )


def spare_sequences(blocks: int) -> int:
    """Return a number of requests that leaves half of the blocks, since the memory is known only to about a tenth.

    Requests need blocks for their tokens, too. A power of two, as CUDA graphs are captured for.
    """
    return 1 << max(0, (blocks // 2).bit_length() - 1)


def lowered_note(default: int, blocks: int) -> str:
    """Explain why the engine's default number of requests is lowered."""
    return (
        f"max_num_seqs is set to {spare_sequences(blocks)}: each request of a hybrid model needs a block of the "
        f"cache, which has {blocks}; with too few for its default of {default} vLLM exits after loading"
    )


def refuse_memory(
    shape: ModelShape, result: Fit, larger: tuple[int, int] | None, fixed: FixedCache | None, errors: PlanErrors
) -> None:
    """Report by how much the model does not fit, and what would change that: `larger` is a cut that would fit."""
    if larger is None:
        more = "use GPUs with more memory: no legal split over up to 64 of this kind is enough"
    else:
        size, stages = larger
        pipeline = f" and pipeline parallel {stages}" if stages > 1 else ""
        more = f"use tensor parallel {size}{pipeline} on {size * stages} GPUs of this kind"
    parts = (
        f"{gib(result.weights_bytes)} weights, {gib(result.activation_bytes)} activations, "
        f"{gib(result.runtime_bytes)} runtime"
    )
    if fixed is not None:
        parts += f", {gib(fixed.asked)} cache as set"
        if fixed.remedy:
            more = fixed.remedy if larger is None else f"{fixed.remedy}, or {more}"
    where = f"{shape.name} at tensor parallel {result.tensor_parallel}"
    if result.pipeline_parallel > 1:
        where += f" and pipeline parallel {result.pipeline_parallel}"
    if result.longest_context < 1:
        errors.add(
            "fit.too-big",
            f"{where}: {parts} on each GPU, which has {gib(result.usable_bytes)} of "
            f"{gib(result.total_bytes)} for the engine; {gib(result.short_bytes)} are missing",
            "weights, activations and runtime leave memory for a cache",
            f"{more}, or serve a smaller or more strongly quantised model",
        )
        return
    errors.add(
        "fit.context",
        f"{where}: the cache of {gib(result.kv_bytes)} holds {result.longest_context} tokens of one request, "
        f"{result.context} are requested; {gib(result.short_bytes)} are missing",
        "the cache holds at least one request of the full context length",
        f"set the context length to {result.longest_context} or less, use an FP8 cache, or {more}",
    )
