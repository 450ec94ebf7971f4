# SPDX-License-Identifier: Apache-2.0
"""Where the engine of a plan keeps what it compiles: which directory of the host, and which variables say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import cache_name, cache_path
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent


def compile_cache(resolved: ResolvedIntent, variables: Mapping[str, str], engine: str) -> dict[str, Any]:
    """{path, variables}, or nothing where the operator wants none, or the engine keeps nothing.

    `variables` are the engine's own (catalog/engines/caches.yml), `engine` what it runs out of: the pinned image's
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
