# SPDX-License-Identifier: Apache-2.0
"""What a plan serves, and where: the first thing that its reader asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_description import endpoint
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import endpoint_url
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.choices import Settled
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.weights_variables import WEIGHTS_ENDPOINT
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of


def served(choices: Settled, roles: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """Model, engine, parallelism and addresses; `roles` are the variables of the head's roles."""
    model, serving, front = choices.model, choices.serving, roles.get("endpoint")
    engine, version = engine_of(choices.stack)
    return {
        "name": serving.served_name,
        "repository": model["repository"],
        "revision": choices.revision,
        "licence": model.get("licence"),
        "gated": model.get("gated"),
        "engine": engine,
        "engine_version": version,
        "runtime": serving.runtime,
        "image": choices.image if serving.runtime == "docker" else None,
        "tensor_parallel": serving.tensor_parallel,
        "pipeline_parallel": serving.pipeline_parallel,
        "replicas": serving.replicas,
        "context": serving.max_model_len or model.get("context"),
        "head": choices.head.name,
        "engine_url": f"http://{endpoint(serving.listen, serving.port)}/v1",
        "endpoint_url": endpoint_url(front, choices.head.name) if front else None,
        "price_per_gpu_hour": choices.price,
    }


def licence_notes(choices: Settled, roles: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """What is needed before the weights of a gated model can be fetched."""
    model, weights = choices.model, roles.get("model_weights") or {}
    if not model.get("gated"):
        return []
    hub = str(weights.get("model_weights_endpoint") or WEIGHTS_ENDPOINT)
    licence = f" ({model['licence']})" if model.get("licence") else ""
    found = (
        f"{model['repository']} is gated: its licence{licence} is accepted at {WEIGHTS_ENDPOINT}/{model['repository']}"
    )
    if weights.get("model_weights_source"):
        return [f"{found}; no access token is needed, the weights come from {weights['model_weights_source']}"]
    token = (
        "an access token of that account" if hub == WEIGHTS_ENDPOINT else f"an access token where {hub} asks for one"
    )
    return [f"{found}, and fetching it needs {token}: supply both before the run (docs/weights.md)"]
