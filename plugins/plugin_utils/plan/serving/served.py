# SPDX-License-Identifier: Apache-2.0
"""Summarise what a plan serves, and where: the first thing its reader asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import endpoint_url
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import endpoint
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of


def served(resolved: ResolvedIntent, roles: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return model, engine, parallelism and addresses; `roles` are the variables of the head's roles."""
    model, serving, front = resolved.model, resolved.serving, roles.get("endpoint")
    engine, version = engine_of(resolved.stack)
    return {
        "name": serving.served_name,
        "repository": model["repository"],
        "revision": resolved.revision,
        "licence": model.get("licence"),
        "gated": model.get("gated"),
        "needs_token": bool(model.get("gated")) and not resolved.intent.get("firstlight_weights_source"),
        "engine": engine,
        "engine_version": version,
        "runtime": serving.runtime,
        "image": resolved.image if serving.runtime == "docker" else None,
        "tensor_parallel": serving.tensor_parallel,
        "pipeline_parallel": serving.pipeline_parallel,
        "replicas": serving.replicas,
        "context": serving.max_model_len or model.get("context"),
        "head": resolved.head.name,
        "engine_url": f"http://{endpoint(serving.listen, serving.port)}/v1",
        "endpoint_url": endpoint_url(front, resolved.head.name) if front else None,
        "price_per_gpu_hour": resolved.price,
        "targets": dict(resolved.targets),
    }
