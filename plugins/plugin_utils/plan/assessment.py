# SPDX-License-Identifier: Apache-2.0
"""Assess an intent: whether the parallel layout is legal, whether the model fits, and how fast it will be."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.expected import Served
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.envelopes import Envelope, envelopes_for
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.written import Written, written
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import PlannerContext
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ClusterIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.intent import Serving
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.advise import FitAt, advise, expected
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.model_load import load_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import Speculation
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.activation import gib
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.budget import Fit, fit
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.checks import ceiling_of, default_share
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.hazards import (
    Case,
    Precautions,
    check_hazards,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.legality import check_parallel
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.parallel_sizes import (
    Place,
    legal_tensor_parallel,
    legal_ways,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.config import read_config
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.matrices import with_quantization
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.online import (
    online_methods,
    online_quantization,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of, older, text

ERRORS = {
    "model.quantization": "A checkpoint records how it is quantised; an engine given another method exits at once.",
    "model.engine": "An engine older than a model does not know its architecture, and exits when it reads the config.",
    "model.load-format": (
        "fastsafetensors puts whole files into GPU memory beside what is already loaded. Where GPU and operating "
        "system share memory, a load that runs out of it takes the host down."
    ),
}

FAST_LOAD_SHARE = 0.8
"""Largest share of unified memory that weights may take with fastsafetensors, as eugr/spark-vllm-docker advises."""
_WITHOUT_FULL_GRAPHS = ("none", "piecewise", "0", "1")
"""Values of cudagraph_mode under which no whole decode step is captured."""


@dataclass(frozen=True)
class Assessment:
    """The result of an assessment; fields are empty if the intent says too little to compute them."""

    fit: Mapping[str, Any] | None = None
    expected: Mapping[str, Any] | None = None
    advice: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    fp8: bool = False
    """Whether the weights are FP8, so that the GPUs must support FP8 compute."""
    serving: Serving | None = None
    """Serving settings with what memory and hazards add; None if nothing was assessed."""
    hazards: Sequence[Mapping[str, str]] = ()
    """Known hazards that apply to the plan: name, review_by, source."""
    served: Served | None = None
    """What a benchmark's expected figures are computed from."""
    envelopes: Sequence[Envelope] = ()
    """Published results for the same hardware, model and layout."""
    shape: ModelShape | None = None
    """The dimensions of the model as served."""
    kv_dtype: str = "auto"
    """Data type of the KV cache, from a setting or a flag; `auto` leaves the choice to the engine."""


def readings(hardware: Mapping[str, Any], stack: Mapping[str, Any]) -> dict[str, Any]:
    """Return the readings that a healthy host of this hardware must show."""
    driver = stack.get("driver") or {}
    found = {
        "gpus": hardware["gpus"],
        "gpu_name": hardware["gpu_name"],
        "memory_mib": hardware["memory_mib"],
        "compute_capability": hardware.get("compute_capability"),
        "pair": hardware.get("pair") if hardware["gpus"] > 1 else None,
        "links_per_gpu": hardware.get("links_per_gpu") or None,
        "driver": driver.get("version") or driver.get("branch"),
    }
    return {name: value for name, value in found.items() if value is not None}


def assess(decided: ClusterIntent, planner_context: PlannerContext, errors: PlanErrors) -> Assessment:
    """Assess the chosen hardware, model and serving settings; refuse what cannot work."""
    hardware, model, serving = decided.hardware, decided.model, decided.serving
    if model is None:
        return Assessment()
    _check_engine(decided, model, errors)
    if not model.get("config"):
        return Assessment(notes=[f"{model['name']} has no config in the catalog: whether it fits was not checked"])
    shape = read_config(model["config"], model["name"], errors)
    if shape is None:
        return Assessment()
    hosts = len(decided.hosts)
    # Without hardware, the model's own rules are still checked.
    each = hardware["gpus"] if hardware else serving.tensor_parallel * serving.pipeline_parallel
    gpus = each * hosts if hardware else each
    engine, version = engine_of(decided.stack) if decided.stack else ("vllm", None)
    wishes = Wishes(serving, written(_schema(planner_context, engine, version), serving.flags))
    shape, quantized = _quantized(wishes, shape, engine, version, errors)
    check_parallel(
        shape,
        tensor_parallel=serving.tensor_parallel,
        pipeline_parallel=serving.pipeline_parallel,
        gpus=gpus,
        gpus_per_host=each,
        hosts=hosts if hardware else 1,
        replicas=serving.replicas,
        every_gpu=True,
        expert_parallel=wishes.expert_parallel,
        speculative=wishes.speculative,
        errors=errors,
    )
    case = Case(
        shape,
        engine,
        version,
        hardware.get("compute_capability") if hardware else None,
        wishes.expert_parallel,
        wishes.kv_dtype,
        wishes.flags,
        serving.pipeline_parallel > 1,
    )
    precautions = check_hazards(case, planner_context.hazards, errors)
    notes = [*quantized, *precautions.notes]
    if hardware is None:
        return Assessment(notes=notes, hazards=precautions.met)
    if not hardware["unified"] and (wishes.utilisation or 0) > ceiling_of(hardware):
        # The engine's default exceeds what this hardware can give; a value from the operator was refused before.
        wishes = replace(wishes, serving=replace(serving, utilisation=default_share(hardware)))
    at = functools.partial(_fit, wishes, shape, hardware, gpus, engine)
    found = at(serving.tensor_parallel, serving.pipeline_parallel)
    for error in found.errors:
        errors.add(error["id"], error["found"], error["rule"], error["remedy"])
    if hardware["unified"]:
        _check_load_format(wishes, found, hardware, errors)
    context = serving.max_model_len or shape.context or 0
    load = load_of(shape, wishes.kv_dtype, wishes.flags.text("--dtype"))
    drafted = (wishes.speculative or {}).get("tokens")
    group: dict[str, Any] = {
        "rails": len(decided.fabric.rails) or None,
        "rdma": decided.fabric.rdma,
        "speculation": Speculation(drafted) if isinstance(drafted, int) and drafted > 0 else None,
    }
    notes += [*found.notes, *_idle_notes(decided, shape, wishes, gpus), *_block_notes(wishes, found)]
    if engine != "vllm":
        notes.append(f"memory is computed as vLLM divides it; {engine} divides it differently")
    return Assessment(
        fit=found.document(),
        expected=expected(
            load, hardware, gpus=gpus, hosts=hosts, tensor_parallel=serving.tensor_parallel, context=context, **group
        ),
        advice=advise(
            load,
            hardware,
            gpus=gpus,
            hosts=hosts,
            legal=legal_tensor_parallel(shape, max(gpus, 64)),
            fits=lambda ranks: _at(at(ranks, 1)),
            context=context,
            price_per_gpu_hour=decided.price,
            **group,
        ),
        notes=notes,
        fp8=shape.quantization.is_fp8,
        serving=_settled(wishes, found, hardware, precautions),
        hazards=precautions.met,
        served=Served(
            load,
            hardware,
            tensor_parallel=serving.tensor_parallel,
            replicas=serving.replicas,
            hosts=-(-serving.tensor_parallel // each),
            most=found.streams,
            **group,
        ),
        envelopes=envelopes_for(
            planner_context.envelopes,
            hardware=hardware["name"],
            model=model["name"],
            profile=serving.profile,
            tensor_parallel=serving.tensor_parallel,
        ),
        shape=shape,
        kv_dtype=wishes.kv_dtype,
    )


def _settled(wishes: Wishes, found: Fit, hardware: Mapping[str, Any], precautions: Precautions) -> Serving:
    """Return the serving settings, with values the operator left out filled in from memory and hazards."""
    serving, settings = wishes.serving, dict(wishes.serving.settings)
    if wishes.number("max_num_seqs", "--max-num-seqs") is None and found.lowered_sequences:
        settings["max_num_seqs"] = found.max_num_seqs
    sized = wishes.flags.size("--kv-cache-memory-bytes")
    share = serving.utilisation
    if share is None and sized is not None and hardware["unified"] and found.total_bytes:
        # vLLM checks that its share of memory is free even where the cache has a size of its own (request_memory of
        # v1/worker/utils.py), and its default of 0.92 is never free there. So it is given the share that it will take.
        taken = found.weights_bytes + found.activation_bytes + found.runtime_bytes + sized
        share = min(1.0, math.ceil(100 * taken / found.total_bytes) / 100)
    told = wishes.utilisation if share is None else share
    return replace(
        serving,
        utilisation=share,
        memory_share=told,
        memory_overhead=found.early_bytes if hardware["unified"] else 0,
        settings=settings,
        flags=(*serving.flags, *precautions.flags),
        environment=dict(precautions.environment),
    )


def _check_load_format(wishes: Wishes, found: Fit, hardware: Mapping[str, Any], errors: PlanErrors) -> None:
    if wishes.flags.text("--load-format") != "fastsafetensors":
        return
    if found.total_bytes and found.weights_bytes > FAST_LOAD_SHARE * found.total_bytes:
        errors.add(
            "model.load-format",
            f"--load-format fastsafetensors for {gib(found.weights_bytes)} of weights on each {hardware['name']}, "
            f"which is {found.weights_bytes / found.total_bytes:.0%} of its memory",
            f"whole files are in memory beside the weights during loading, so these take at most {FAST_LOAD_SHARE:.0%}",
            "take --load-format out of firstlight_serving.flags, or split the model over more hosts",
        )


def _check_engine(decided: ClusterIntent, model: Mapping[str, Any], errors: PlanErrors) -> None:
    if decided.stack is None:
        return
    engine, version = engine_of(decided.stack)
    least = text((model.get("minimum") or {}).get(engine))
    if older(version, least):
        errors.add(
            "model.engine",
            f"stack {decided.stack['name']} has {engine} {version}",
            f"{model['name']} needs {engine} {least} or newer",
            f"choose a stack with {engine} {least} or newer, or another model",
        )


def _quantized(
    wishes: Wishes, shape: ModelShape, engine: str, version: str | None, errors: PlanErrors
) -> tuple[ModelShape, list[str]]:
    """Return the model as --quantization makes it, with notes about it; a method that cannot work is refused."""
    asked, own = wishes.flags.text("--quantization"), shape.quantization.method
    if not asked or asked == "None":
        return shape, []
    if own is not None and (asked == own or asked.startswith(f"{own}_")):
        return shape, [f"--quantization {asked} is redundant: the checkpoint of {shape.name} already sets it"]
    if own is not None:
        errors.add(
            "model.quantization",
            f"--quantization {asked} for {shape.name}",
            f"its checkpoint is quantised with {own}, and the engine exits when given another method",
            "take --quantization out of firstlight_serving.flags",
        )
        return shape, []
    found = online_quantization(engine, version, asked)
    if found is not None and found.linear is None and found.experts is not None and shape.experts is None:
        errors.add(
            "model.quantization",
            f"--quantization {asked} for {shape.name}, which has no experts",
            f"{asked} quantises the experts of a mixture-of-experts model and nothing else",
            "take --quantization out of firstlight_serving.flags",
        )
        return shape, []
    if found is None:
        others = ", ".join(online_methods(engine, version))
        errors.add(
            "model.quantization",
            f"--quantization {asked} for {shape.name}, whose checkpoint is not quantised",
            f"{asked} reads weights that are already quantised, and the engine exits without their quantization_config",
            "take --quantization out of firstlight_serving.flags, or serve a variant that is quantised with it"
            + (f"; {engine} quantises at load time with {others}" if others else ""),
        )
        return shape, []
    note = (
        f"--quantization {asked} quantises {shape.name} while it is loaded: {found.told}; embeddings, output matrix, "
        f"router and norms stay in {shape.dtype}. A checkpoint in FP8 takes half the time to fetch and to read"
    )
    return with_quantization(shape, found), [note]


def _idle_notes(decided: ClusterIntent, shape: ModelShape, wishes: Wishes, gpus: int) -> list[str]:
    """Return a note about GPUs of a single host that stay idle, and the settings that would use them."""
    serving = decided.serving
    world = serving.tensor_parallel * serving.pipeline_parallel * serving.replicas
    if len(decided.hosts) > 1 or world >= gpus:
        return []
    ways = legal_ways(shape, Place(gpus, gpus, 1), wishes.expert_parallel)
    found = next((one for one in ways if one[0] * one[1] == gpus), None)
    use = []
    if found is not None:
        use.append(f"tensor_parallel {found[0]}" + (f" and pipeline_parallel {found[1]}" if found[1] > 1 else ""))
    replicas = gpus // (serving.tensor_parallel * serving.pipeline_parallel)
    if replicas > serving.replicas and PROFILES[serving.profile].engine == "vllm":
        use.append(f"profile vllm-replicas with replicas {replicas}")
    return [f"{gpus - world} of {gpus} GPUs stay idle" + (f": {' or '.join(use)} would use them" if use else "")]


def _block_notes(wishes: Wishes, found: Fit) -> list[str]:
    """Return a note about a block size that the engine does not keep."""
    asked = wishes.flags.size("--block-size")
    if not asked or found.pool is None or found.pool.layout.block_tokens == asked:
        return []
    note = (
        f"--block-size {asked} has no effect: the engine sets this model's cache blocks to "
        f"{found.pool.layout.block_tokens} tokens itself; leave the flag out"
    )
    return [note]


def _schema(planner_context: PlannerContext, engine: str, version: str | None) -> EngineSchema | None:
    try:
        return planner_context.schema(engine, version) if version else None
    except CatalogError:
        return None  # refused where the flags are checked


@dataclass(frozen=True)
class Wishes:
    """The operator's settings and flags, read as one."""

    serving: Serving
    flags: Written

    def number(self, setting: str, flag: str) -> int | None:
        """Return a number, whether it is written as a setting or as a flag."""
        value = self.serving.settings.get(setting)
        return value if isinstance(value, int) else self.flags.size(flag)

    @property
    def kv_dtype(self) -> str:
        return str(self.serving.settings.get("kv_cache_dtype") or self.flags.text("--kv-cache-dtype") or "auto")

    @property
    def expert_parallel(self) -> bool:
        spread = [self.flags.size("--ep-size"), self.flags.size("--moe_expert_parallel_size")]
        asked = self.serving.settings.get("expert_parallel") or self.flags.has("--enable-expert-parallel")
        return bool(asked) or any(one is not None and one > 1 for one in spread)

    @property
    def speculative(self) -> dict[str, Any] | None:
        given = self.serving.settings.get("speculative")
        if given is not None:
            return dict(given)
        document = self.flags.document("--speculative-config")
        if document is None:
            return None
        return {"method": document.get("method"), "tokens": document.get("num_speculative_tokens")}

    @property
    def full_graphs(self) -> bool:
        """Whether vLLM captures whole decode steps as CUDA graphs, which is its default."""
        mode = (self.flags.document("--compilation-config") or {}).get("cudagraph_mode", "")
        return not self.flags.has("--enforce-eager") and str(mode).lower() not in _WITHOUT_FULL_GRAPHS

    @property
    def utilisation(self) -> float | None:
        """The share of memory; where it is not set, the default of the engine's own parser."""
        flag = self.flags.flags.get("--gpu-memory-utilization")
        if self.serving.utilisation is not None or flag is None:
            return self.serving.utilisation
        return flag.default if isinstance(flag.default, float) else None


def _fit(
    wishes: Wishes,
    shape: ModelShape,
    hardware: Mapping[str, Any],
    gpus: int,
    engine: str,
    tensor_parallel: int,
    stages: int,
) -> Fit:
    tokens = (wishes.speculative or {}).get("tokens")
    return fit(
        shape,
        hardware,
        gpus=gpus,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=stages,
        context=wishes.serving.max_model_len,
        kv_dtype=wishes.kv_dtype,
        utilisation=wishes.serving.utilisation if hardware["unified"] else wishes.utilisation,
        max_num_batched_tokens=wishes.number("max_num_batched_tokens", "--max-num-batched-tokens"),
        max_num_seqs=wishes.number("max_num_seqs", "--max-num-seqs"),
        kv_cache_bytes=wishes.flags.size("--kv-cache-memory-bytes"),
        block_tokens=wishes.flags.size("--block-size"),
        expert_parallel=wishes.expert_parallel,
        speculative_tokens=tokens if isinstance(tokens, int) else 0,
        vision=not wishes.flags.has("--language-model-only"),
        graphs=not wishes.flags.has("--enforce-eager"),
        full_graphs=engine == "vllm" and wishes.full_graphs,
        dtype=wishes.flags.text("--dtype"),
    )


def _at(found: Fit) -> FitAt:
    reason = found.errors[0]["found"] if found.errors else ""
    return FitAt(found.fits, found.kv_tokens, reason, found.streams)
