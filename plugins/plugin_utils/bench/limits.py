# SPDX-License-Identifier: Apache-2.0
"""Limits beyond which the figures of a benchmark do not count (catalog/rules/benchmark.yml)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml


@lru_cache(maxsize=1)
def limits() -> Mapping[str, float]:
    """Load the limits: by name, the share above which figures do not count."""
    document: Mapping[str, float] = load_yaml(BUILT_IN / "rules" / "benchmark.yml")
    return document


def uncounted(run: Mapping[str, Any]) -> str | None:
    """Return why the figures of a run do not count; None if they do."""
    most, load = limits(), run.get("client_load") or 0.0
    if run["failed"] > most["failed"] * run["requests"]:
        kinds = ", ".join(f"{kind}: {count}" for kind, count in run["failures"].items())
        return f"{run['failed']} of {run['requests']} requests failed ({kinds}), expected at most {most['failed']:.0%}"
    if load > most["client_load"]:
        return (
            f"client was the bottleneck: it used {load:.0%} of the processor time it can use, expected at most "
            f"{most['client_load']:.0%}: run it on another or a faster host, or send less"
        )
    return None
