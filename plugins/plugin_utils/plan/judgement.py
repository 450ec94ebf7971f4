# SPDX-License-Identifier: Apache-2.0
"""What the plan knows about the choices: whether the model may be split so, whether it fits, how fast it will be."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.advice.advise import FitAt, advise, expected
from ansible_collections.firstlight.cluster.plugins.plugin_utils.advice.model_load import load_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.values import read_size
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit.budget import Fit, fit
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit.legality import (
    check_parallel,
    legal_tensor_parallel,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.choices import Choices
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.flags import flag_value
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.serving import Serving
from ansible_collections.firstlight.cluster.plugins.plugin_utils.models.config import read_config
from ansible_collections.firstlight.cluster.plugins.plugin_utils.models.shape import ModelShape
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.knowledge import Knowledge
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of, older, text

REFUSALS = {
    "model.engine": "An engine older than a model does not know its architecture, and ends when it reads the config.",
}

_SAME = {"serving.parallel": "world.size", "serving.utilisation": "fit.utilisation"}
"""What the intent itself was already refused for, also for models without a config.json: not said twice."""


@dataclass(frozen=True)
class Judgement:
    """What is expected; empty where the choices do not say enough."""

    fit: Mapping[str, Any] | None = None
    expected: Mapping[str, Any] | None = None
    advice: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    fp8: bool = False
    """Whether weights are FP8, so that the GPUs must compute it."""


def readings(hardware: Mapping[str, Any], stack: Mapping[str, Any]) -> dict[str, Any]:
    """What a host of this hardware must show once it is up."""
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


def judge(choices: Choices, knowledge: Knowledge, refusals: Refusals) -> Judgement:
    """Judge what was chosen; what cannot work is refused."""
    hardware, model, serving = choices.hardware, choices.model, choices.serving
    if hardware is None or model is None:
        return Judgement()
    _check_engine(choices, model, refusals)
    if not model.get("config"):
        return Judgement(notes=[f"{model['name']} has no config in the catalog: whether it fits was not checked"])
    shape = read_config(model["config"], model["name"], refusals)
    if shape is None:
        return Judgement()
    hosts = len(choices.hosts)
    gpus = hardware["gpus"] * hosts
    engine, version = engine_of(choices.stack) if choices.stack else ("vllm", None)
    parallel = Refusals()
    check_parallel(
        shape,
        tensor_parallel=serving.tensor_parallel,
        pipeline_parallel=serving.pipeline_parallel,
        gpus=gpus,
        gpus_per_host=hardware["gpus"],
        hosts=hosts,
        expert_parallel=serving.expert_parallel,
        engine=engine,
        engine_version=version,
        speculative=_speculative(serving),
        hazards=knowledge.hazards,
        refusals=parallel,
    )
    at = functools.partial(_fit, serving, shape, hardware, gpus, _schema(knowledge, engine, version))
    found = at(serving.tensor_parallel)
    said = {_SAME.get(refusal["id"]) for refusal in refusals.found}
    for refusal in (*parallel.found, *found.refusals):
        if refusal["id"] not in said:
            refusals.add(refusal["id"], refusal["found"], refusal["rule"], refusal["remedy"])
    context = serving.max_model_len or shape.context or 0
    load = load_of(shape, _kv_dtype(serving))
    return Judgement(
        fit=found.document(),
        expected=expected(
            load, hardware, gpus=gpus, hosts=hosts, tensor_parallel=serving.tensor_parallel, context=context
        ),
        advice=advise(
            load,
            hardware,
            gpus=gpus,
            hosts=hosts,
            legal=legal_tensor_parallel(shape, max(gpus, 64)),
            fits=lambda ranks: _at(at(ranks)),
            context=context,
            price_per_gpu_hour=choices.price,
        ),
        notes=[*shape.notes, *found.notes],
        fp8=shape.quantization.method in ("fp8", "compressed-tensors") and load.precision == "fp8",
    )


def _check_engine(choices: Choices, model: Mapping[str, Any], refusals: Refusals) -> None:
    if choices.stack is None:
        return
    engine, version = engine_of(choices.stack)
    least = text((model.get("minimum") or {}).get(engine))
    if older(version, least):
        refusals.add(
            "model.engine",
            f"stack {choices.stack['name']} has {engine} {version}",
            f"{model['name']} needs {engine} {least} or newer",
            f"choose a stack with {engine} {least} or newer, or another model",
        )


def _schema(knowledge: Knowledge, engine: str, version: str | None) -> EngineSchema | None:
    try:
        return knowledge.schema(engine, version) if version else None
    except CatalogError:
        return None  # refused where the flags are checked


def _fit(
    serving: Serving,
    shape: ModelShape,
    hardware: Mapping[str, Any],
    gpus: int,
    schema: EngineSchema | None,
    tensor_parallel: int,
) -> Fit:
    flags = schema.by_name if schema else {}

    def number(setting: str, flag: str) -> int | None:
        """A size as the engine reads it; what it cannot read is the schema's to refuse."""
        text = serving.setting(setting, flag)
        return None if text is None or flag not in flags else read_size(flags[flag], text)

    utilisation = serving.utilisation
    if utilisation is None and not hardware["unified"] and "--gpu-memory-utilization" in flags:
        utilisation = flags["--gpu-memory-utilization"].default  # what the engine takes when nobody says how much
    return fit(
        shape,
        hardware,
        gpus=gpus,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=serving.pipeline_parallel,
        context=serving.max_model_len,
        kv_dtype=_kv_dtype(serving),
        utilisation=utilisation,
        max_num_batched_tokens=number("max_num_batched_tokens", "--max-num-batched-tokens"),
        max_num_seqs=number("max_num_seqs", "--max-num-seqs"),
        kv_cache_bytes=number("", "--kv-cache-memory-bytes"),
        block_tokens=number("", "--block-size"),
        expert_parallel=serving.expert_parallel,
        speculative_tokens=(_speculative(serving) or {}).get("tokens") or 0,
        vision=flag_value(serving.flags, "--language-model-only") is None,
        graphs=flag_value(serving.flags, "--enforce-eager") is None,
    )


def _at(found: Fit) -> FitAt:
    reason = found.refusals[0]["found"] if found.refusals else ""
    return FitAt(found.fits, found.kv_tokens, reason)


def _kv_dtype(serving: Serving) -> str:
    return serving.setting("kv_cache_dtype", "--kv-cache-dtype") or "auto"


def _speculative(serving: Serving) -> dict[str, Any] | None:
    """The speculative settings, wherever they are written, in the plan's own words."""
    given = serving.settings.get("speculative")
    if given is not None:
        return dict(given)
    text = flag_value(serving.flags, "--speculative-config")
    try:
        document = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    return {"method": document.get("method"), "tokens": document.get("num_speculative_tokens")}
