# SPDX-License-Identifier: Apache-2.0
"""Describe what an engine has to redo when its shards or weights change, since that prolongs the next start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES

_MADE = {
    # llmapi/llm_args.py and _torch/pyexecutor/model_engine.py of 1.2.1: enable_autotuner, TLLM_AUTOTUNER_CACHE_PATH.
    "tensorrt-llm": "its PyTorch backend has no engine files, so trtllm-build is not needed; every rank "
    "reads its shards, tunes its kernels and captures its CUDA graphs again",
    "vllm": "there are no engine files; every rank reads its shards, compiles and captures its CUDA graphs again",
    "sglang": "there are no engine files; every rank reads its shards, compiles its kernels and captures its CUDA "
    "graphs again",
}
_CACHE = "TLLM_AUTOTUNER_CACHE_PATH"


def standing_notes(profile: str) -> list[str]:
    """Return a note on future changes, for the engine that people expect to build engine files."""
    known = PROFILES.get(profile)
    if known is None or known.engine != "tensorrt-llm":
        return []
    note = (
        "a change of tensor_parallel, or of the model and with it of its quantisation, starts TensorRT-LLM from the "
        f"weights: {_MADE[known.engine]}. Launch reports this before it stops the running model"
    )
    return [note]


def rebuild_notes(seen: Mapping[str, Any], plan: Mapping[str, Any]) -> list[str]:
    """Return sentences on what changes for the ranks, from the head's current setup to its plan; empty if nothing does.

    `seen` is what serving_status found on the head. Weights are quantised as their checkpoint is, so another
    quantisation is another model.
    """
    server = (plan.get("roles") or {}).get("inference_server") or {}
    profile = PROFILES.get(str(server.get("inference_server_profile")))
    groups = [one for one in ((seen.get("config") or {}).get("groups") or {}).values() if isinstance(one, Mapping)]
    changes = _changes(groups, server)
    if profile is None or not changes:
        return []
    notes = [f"{' and '.join(changes)}: {_MADE[profile.engine]}. The next start takes as long as a first one"]
    path = (server.get("inference_server_environment") or {}).get(_CACHE)
    if profile.engine == "tensorrt-llm" and path:
        notes.append(
            f"{_CACHE} is {path}: its content was tuned for the previous shards; the engine adds to it "
            "and does not clear it, so remove the file for a start that measures everything"
        )
    return notes


def _changes(groups: list[Mapping[str, Any]], server: Mapping[str, Any]) -> list[str]:
    found = []
    size = server.get("inference_server_tensor_parallel")
    before = next((one["tensor_parallel"] for one in groups if isinstance(one.get("tensor_parallel"), int)), None)
    if before is not None and size is not None and int(size) != before:
        found.append(f"tensor parallel changes from {before} to {size}")
    model = str(server.get("inference_server_served_name") or "")
    asked = next((str(one["model"]) for one in groups if one.get("model")), "")
    if asked and model and asked != model:
        found.append(f"the model changes from {asked} to {model}, and with it the quantisation of its checkpoint")
    return found
