# SPDX-License-Identifier: Apache-2.0
"""Read the serving part of an intent: the server's address, its share of memory, and the engine's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import MOST_REPLICAS
from ansible_collections.firstlight.cluster.plugins.module_utils.text import is_address
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import ENGINE_PORT
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.flags import flag_name
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import read_mapping
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.flags import read_flags
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.profile import (
    check_replicas,
    read_profile,
    usual_replicas,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.serving_values import (
    Numbers,
    read_engine_settings,
    read_speculative,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.checks import above_ceiling, default_share
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.parallel_sizes import Place, ways_out
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.config import read_config

ERRORS = {
    "serving.parallel": "The model is split into as many shards as there are ranks, and each needs a GPU of its own.",
    "serving.context": "A model answers badly, or not at all, beyond the context it was made for.",
    "serving.value": "A value that the engine cannot use stops it minutes after the start; here it costs nothing.",
    "serving.listen": "The server binds to one address; a name may mean another one tomorrow.",
    "serving.utilisation": "On unified memory the engine takes its share from the operating system. Above the "
    "ceiling the host dies or hangs, and needs somebody on site. A GPU with memory of its own needs what is "
    "above the ceiling for CUDA graphs, NCCL and the driver; the engine runs out of memory after it has loaded "
    "everything. An entry of a site's own catalog may set another ceiling (utilisation_ceiling).",
}

SERVING_KEYS = (
    "profile",
    "runtime",
    "tensor_parallel",
    "pipeline_parallel",
    "replicas",
    "gpu_memory_utilization",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "kv_cache_dtype",
    "expert_parallel",
    "prefix_caching",
    "tool_call_parser",
    "reasoning_parser",
    "speculative",
    "engine_settings",
    "port",
    "listen",
    "served_name",
    "start_timeout",
    "disk_read_gb_s",
    "compile_cache",
    "flags",
)


@dataclass(frozen=True)
class Serving:
    """How the cluster serves: every number resolved, every word checked."""

    profile: str
    runtime: str
    tensor_parallel: int
    pipeline_parallel: int
    replicas: int
    utilisation: float | None
    max_model_len: int | None
    port: int
    listen: str
    served_name: str
    start_timeout: int | None
    flags: tuple[str, ...]
    """The operator's own flags, in the engine's syntax."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """max_num_seqs and the like, under engine-independent names; only what is set."""
    engine_settings: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the engine's settings file, under its own names; only TensorRT-LLM has such a file."""
    disk_read_gb_s: float | None = None
    """Measured rate at which a host reads its weights; None leaves it to the hardware's entry."""
    compile_cache: bool = True
    """Whether the engine's compile results are kept on the hosts."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the plan gives the engine because of a known hazard; the operator's own win."""
    memory_share: float | None = None
    """The share of memory that must be free at start: the one it is given, or its default; None if unknown."""
    memory_overhead: int = 0
    """Bytes of unified memory that a start takes before the engine checks."""


def read_serving(
    intent: Mapping[str, Any],
    hardware: Mapping[str, Any] | None,
    stack: Mapping[str, Any] | None,
    model: Mapping[str, Any] | None,
    size: int,
    errors: PlanErrors,
) -> Serving:
    """Read how `size` hosts of this hardware serve the model."""
    serving = read_mapping(intent, "firstlight_serving", SERVING_KEYS, errors)
    numbers = Numbers(serving, errors)
    flags = read_flags(serving.get("flags"), errors)
    total = hardware["gpus"] * size if hardware else None
    pipeline = numbers.whole("pipeline_parallel", 1, (1, 1024))
    profile, runtime = read_profile(serving, stack, size, errors)
    replicas = check_replicas(
        numbers.whole("replicas", usual_replicas(profile, size), (1, MOST_REPLICAS * max(1, size))), profile, errors
    )
    tensor = numbers.whole("tensor_parallel", max(1, (total or 1) // pipeline // replicas), (1, 1024))
    if hardware and total is not None:
        _check_world(tensor, pipeline, replicas, hardware, size, model, errors)
    max_model_len = numbers.count("max_model_len", (1, 16_777_216))
    context = (model or {}).get("context")
    if max_model_len and context and max_model_len > context:
        errors.add(
            "serving.context",
            f"firstlight_serving.max_model_len is {max_model_len}",
            f"{(model or {})['name']} was made for {context} tokens",
            f"set firstlight_serving.max_model_len to {context} or less",
        )
    listen = serving.get("listen", "127.0.0.1")
    if not is_address(listen):
        errors.add(
            "serving.listen",
            f"firstlight_serving.listen is {listen!r}",
            "the server listens on an IP address of the head",
            "write 127.0.0.1 (only from the head itself), or the head's address to open it",
        )
    settings = {
        "max_num_seqs": numbers.count("max_num_seqs", (1, 65_536)),
        "max_num_batched_tokens": numbers.count("max_num_batched_tokens", (1, 16_777_216)),
        **{key: numbers.word(key) for key in ("kv_cache_dtype", "tool_call_parser", "reasoning_parser")},
        **{key: numbers.truth(key) for key in ("expert_parallel", "prefix_caching")},
        "speculative": read_speculative(serving, errors),
    }
    return Serving(
        profile=profile,
        runtime=runtime,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        replicas=replicas,
        utilisation=_utilisation(serving, hardware, flags, errors),
        max_model_len=max_model_len,
        port=numbers.whole("port", ENGINE_PORT, (1, 65535 if replicas == 1 else 65535 - replicas)),
        listen=str(listen),
        served_name=numbers.word("served_name") or str((model or {}).get("name") or ""),
        start_timeout=numbers.optional("start_timeout", (30, 86_400)),
        flags=tuple(flags),
        settings={key: value for key, value in settings.items() if value is not None},
        engine_settings=read_engine_settings(serving, errors),
        disk_read_gb_s=numbers.rate("disk_read_gb_s", 1000),
        compile_cache=numbers.truth("compile_cache") is not False,
    )


def _check_world(
    tensor: int,
    pipeline: int,
    replicas: int,
    hardware: Mapping[str, Any],
    size: int,
    model: Mapping[str, Any] | None,
    errors: PlanErrors,
) -> None:
    """Check that every rank has a GPU and no host is left out; on a single host some GPUs may stay unused."""
    each = hardware["gpus"]
    total, world = each * size, tensor * pipeline * replicas
    if world == total or (size == 1 and world < total):
        return
    product = f"tensor_parallel {tensor}" + (f" x pipeline_parallel {pipeline}" if pipeline > 1 else "")
    product += f" x {replicas} replicas" if replicas > 1 else ""
    errors.add(
        "serving.parallel",
        f"firstlight_serving has {product}, which is {world} ranks",
        f"{size} x {hardware['name']} have {total} GPUs, and "
        + ("every replica has its own" if replicas > 1 else "the model is sharded over all of them"),
        _way_out(tensor, pipeline, Place(total, each, size, replicas, every_gpu=True), model),
    )


def _way_out(tensor: int, pipeline: int, place: Place, model: Mapping[str, Any] | None) -> str:
    """Return a remedy with sizes that the model can be cut into; without its config these are unknown."""
    config = (model or {}).get("config")
    shape = read_config(config, "", PlanErrors()) if config else None
    found = [ways_out(shape, place, pipeline)] if shape is not None else []
    replicas = place.gpus // (tensor * pipeline)
    # In a profile with replicas each replica lies within a host, even if it is the only one.
    within = tensor * pipeline <= place.gpus_per_host and place.gpus_per_host % tensor == 0
    if place.replicas > 1 and replicas and within and replace(place, replicas=replicas).holds(tensor, pipeline):
        found.append(f"set firstlight_serving.replicas to {replicas}")
    found = [one for one in found if one]
    return ", or ".join(found) or f"list hosts with as many GPUs as there are ranks, or use {place.gpus} ranks"


def _utilisation(
    serving: Mapping[str, Any], hardware: Mapping[str, Any] | None, flags: Sequence[str], errors: PlanErrors
) -> float | None:
    """Return the share of memory to take; None leaves it to the engine.

    On unified memory the engine's own default would take what the operating system needs, so the default there follows
    from the profile. A cache of explicit size determines the share itself, once its needs are known.
    """
    value = serving.get("gpu_memory_utilization")
    if value is None:
        sized = any(flag_name(flag) == "--kv-cache-memory-bytes" for flag in flags)
        return default_share(hardware) if hardware and hardware["unified"] and not sized else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        errors.add(
            "serving.utilisation",
            f"firstlight_serving.gpu_memory_utilization is {value!r}",
            "the utilisation is a number above 0 and at most 1",
            f"write it as {default_share(hardware or {}):g}, without quotes",
        )
        return None
    if hardware and value > hardware["utilisation_ceiling"]:
        errors.add(
            "serving.utilisation",
            f"firstlight_serving.gpu_memory_utilization is {value:g}",
            f"{hardware['name']} {above_ceiling(hardware)}",
            f"set firstlight_serving.gpu_memory_utilization to {hardware['utilisation_ceiling']:g} or less",
        )
        return float(hardware["utilisation_ceiling"])  # so that everything else is still checked
    return float(value)
