# SPDX-License-Identifier: Apache-2.0
"""Data for the rules between the parts of a stack: versions, and the tables of catalog/rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.versions import is_older
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml

RULES = BUILT_IN / "rules"


@dataclass(frozen=True)
class Tables:
    """The tables, with versions as text."""

    minimum_branch: Mapping[str, int] = field(default_factory=dict)
    """CUDA major release -> driver branch."""
    made_with: Mapping[str, str] = field(default_factory=dict)
    """CUDA release -> driver it was released with."""
    compute_capability: Mapping[str, str] = field(default_factory=dict)
    """Compute capability -> first CUDA release that builds for it."""
    open_modules_from: str | None = None
    nccl_across_hosts: Mapping[str, str] = field(default_factory=dict)
    """Engine -> oldest NCCL."""
    dkms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Source -> the oldest dkms that its drivers build with, and the driver `from` which this applies."""
    distribution_dkms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Distribution and version -> dkms of its own archive."""
    kernels: Sequence[Mapping[str, Any]] = ()
    """Kernels on which drivers do not build."""
    ray_token: str | None = None
    ray: str | None = None


@lru_cache(maxsize=8)
def load_tables(directory: Path = RULES) -> Tables:
    """Load the tables of this collection's catalog."""
    cuda, oldest, build = (
        load_yaml(directory / f"{name}.yml") for name in ("cuda_driver", "minimum_versions", "driver_build")
    )
    return Tables(
        minimum_branch=cuda["minimum_branch"],
        made_with=cuda["made_with"],
        compute_capability=cuda["compute_capability"],
        open_modules_from=cuda["open_modules_from"],
        dkms=build["dkms"],
        distribution_dkms=build["distribution_dkms"],
        kernels=tuple(build["kernels"]),
        nccl_across_hosts=oldest["nccl_across_hosts"],
        ray_token=oldest["ray_token"],
        ray=oldest["ray"],
    )


def part(stack: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an optional part of a stack; empty if it is missing."""
    value = stack.get(name)
    return value if isinstance(value, Mapping) else {}


def text(value: Any) -> str | None:
    """Return a version as text; None if unknown."""
    return None if value is None or isinstance(value, bool) else str(value)


older = is_older
"""Returns whether both versions are known and the first is older."""


def engine_of(stack: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return name and version of the engine that a stack pins."""
    engine = part(stack, "engine")
    name = str(engine.get("name") or "vllm")
    return name, text(engine.get("version") or part(stack, "requires").get(name))


def driver_version(stack: Mapping[str, Any]) -> str | None:
    """Return the driver as precisely as the stack specifies it: its version, or its branch."""
    driver = part(stack, "driver")
    return text(driver.get("version")) or text(driver.get("branch"))
