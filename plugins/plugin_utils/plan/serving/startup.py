# SPDX-License-Identifier: Apache-2.0
"""Compute how long a start may take, from bytes of weights, a read rate, and an allowance to compile.

Pure. Unknown values are assumed pessimistically: a limit that is too long costs a wait where an engine hangs
unnoticed; one that is too short ends every start of a cluster that would have served.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape

MIB = 1 << 20
LONGEST = 86_400
"""Longest limit of a start, in seconds."""
BEYOND = 600
"""Seconds that a wait for a restart adds to the limit of a start: the former epoch stops first, then Ray joins."""

COMPUTED = "computed"
BY_HAND = ("firstlight_serving.start_timeout", "inference_server_start_timeout", "supervisor_start_timeout")
"""Variables with which an operator may set the limit, from general to specific: the last one that is set applies."""


@dataclass(frozen=True)
class Startup:
    """The limit of a start with its parts."""

    weights_bytes_per_rank: int
    weights_from: str
    """Source of the figure: fit, the size of the files, or the memory of the GPUs if nothing else is known."""
    ranks_per_host: int
    weights_bytes_per_host: int
    disk_read_gb_s: float
    disk_read_from: str
    read_s: int
    compile_s: int
    computed_s: int
    limit_s: int
    """The limit that applies."""
    limit_from: str
    """`computed`, or the variable with which the operator has set it."""
    progress_timeout_s: int
    """A start without any progress for this long is ended earlier."""
    wait_s: int
    """How long a playbook waits for a restart."""
    first_s: int | None = None
    """Estimated duration of a first start; None if the model's dimensions are not known."""
    later_s: int | None = None
    """Estimated duration of a start that finds a compile cache."""

    def document(self) -> dict[str, Any]:
        """Return plain data with every key present."""
        return asdict(self)

    def notes(self) -> list[str]:
        """Return a note if a limit set by hand is shorter than the computed one."""
        if self.limit_from == COMPUTED or self.limit_s >= self.computed_s:
            return []
        note = (
            f"{self.limit_from} is {self.limit_s} s, a start may take {self.computed_s} s ({self.read_s} s to read, "
            f"{self.compile_s} s to compile the first time): leave it out, or set it to that or more"
        )
        return [note]


@lru_cache(maxsize=1)
def _usual() -> Mapping[str, Any]:
    """Load the figures for hardware whose entry has none."""
    document: Mapping[str, Any] = load_yaml(BUILT_IN / "rules" / "startup.yml")
    return document


def startup(resolved: ResolvedIntent, fit: Mapping[str, Any] | None, shape: ModelShape | None = None) -> Startup:
    """Compute the limit of a start of this intent, and its likely duration.

    `fit` is the memory computation, where there was one; `shape` the model's dimensions, where they are known.
    """
    serving, hardware, hosts = resolved.serving, resolved.hardware, len(resolved.hosts)
    usual = _usual()
    own: Mapping[str, Any] = hardware.get("startup") or usual
    place = f"catalog, hardware {hardware['name']}" if hardware.get("startup") else "catalog, rules/startup.yml"
    ranks = serving.tensor_parallel * serving.pipeline_parallel * serving.replicas
    each = max(1, math.ceil(ranks / hosts))
    weights, weights_from = _weights(resolved, fit)
    rate = float(serving.disk_read_gb_s or own["disk_read_gb_s"])
    read = math.ceil(weights * each / (rate * 1e9))
    compile_s = int(own["compile_s"])
    computed = min(LONGEST, max(int(usual["least_s"]), _whole_minutes(read + compile_s)))
    limit, limit_from = _limit(resolved, computed)
    usual_rate = float(serving.disk_read_gb_s or own.get("usual_read_gb_s") or rate)
    first, later = _usually(weights * each / (usual_rate * 1e9), shape, usual["usually"], kept=serving.compile_cache)
    return Startup(
        weights_bytes_per_rank=weights,
        weights_from=weights_from,
        ranks_per_host=each,
        weights_bytes_per_host=weights * each,
        disk_read_gb_s=rate,
        disk_read_from="firstlight_serving.disk_read_gb_s" if serving.disk_read_gb_s else place,
        read_s=read,
        compile_s=compile_s,
        computed_s=computed,
        limit_s=limit,
        limit_from=limit_from,
        progress_timeout_s=int(own["progress_timeout_s"]),
        wait_s=limit + BEYOND,
        first_s=first,
        later_s=later,
    )


def _usually(
    read: float, shape: ModelShape | None, usual: Mapping[str, float], *, kept: bool
) -> tuple[int | None, int | None]:
    """Estimate the seconds of a first start and of later ones, rounded to tens."""
    if shape is None:
        return None, None
    later = read + usual["boot_s"] + shape.layers * usual["capture_s_per_layer"]
    first = later + shape.layers * usual["compile_s_per_layer"]
    if shape.quantization.is_fp8 and shape.quantization.block is not None:
        first += usual["block_fp8_kernels_s"]
    return round(first / 10) * 10, round((later if kept else first) / 10) * 10


def _weights(resolved: ResolvedIntent, fit: Mapping[str, Any] | None) -> tuple[int, str]:
    """Return the bytes of weights that one rank holds, and the source of the figure."""
    computed = (fit or {}).get("weights_bytes_per_gpu")
    if computed:
        return int(computed), "fit"
    serving, hardware = resolved.serving, resolved.hardware
    size = resolved.model.get("size_bytes")
    if size:
        return math.ceil(int(size) / (serving.tensor_parallel * serving.pipeline_parallel)), "files"
    memory = hardware.get("memory_mib") or hardware.get("os_visible_mib") or 0
    return int(memory * MIB * hardware["utilisation_ceiling"]), "memory"


def _limit(resolved: ResolvedIntent, computed: int) -> tuple[int, str]:
    """Return the limit that applies, in seconds, and where it was set. The role itself refuses an invalid number."""
    limit, limit_from = computed, COMPUTED
    given = {BY_HAND[0]: resolved.serving.start_timeout} | {
        name: resolved.head.variables.get(name) for name in BY_HAND[1:]
    }
    for name, value in given.items():
        if value is not None and str(value).isdecimal():
            limit, limit_from = int(str(value)), name
    return limit, limit_from


def _whole_minutes(seconds: int) -> int:
    return math.ceil(seconds / 60) * 60
