# SPDX-License-Identifier: Apache-2.0
"""The compile cache of a plan's engine: its directory on the host, and the variables that point to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import cache_name, cache_path
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent


def compile_cache(resolved: ResolvedIntent, variables: Mapping[str, str], engine: str) -> dict[str, Any]:
    """Return {path, variables}; empty if the operator wants no cache, or the engine keeps none.

    `variables` are the engine's own (catalog/engines/caches.yml), `engine` what it runs from: the pinned image's
    name, or the digest of a virtual environment's lock.
    """
    serving, hardware = resolved.serving, resolved.hardware
    if not serving.compile_cache or not variables or not engine:
        return {}
    capability = str(hardware.get("compute_capability") or "")
    gpu = f"sm{capability.replace('.', '')}" if capability else str(hardware["name"])
    layout = f"tp{serving.tensor_parallel}-pp{serving.pipeline_parallel}"
    name = cache_name(str(resolved.model["name"]), resolved.revision, layout, gpu, engine)
    return {"path": cache_path(serving.runtime, name), "variables": dict(variables)}
