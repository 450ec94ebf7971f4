# SPDX-License-Identifier: Apache-2.0
"""List the parallel sizes that are legal on given GPUs, and phrase them as remedies: a remedy is always legal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.shards import broken_shards, uneven_sizes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape

MOST_NAMED = 8
"""Sizes that one remedy names."""


@dataclass(frozen=True)
class Place:
    """The GPUs that a model is cut over."""

    gpus: int
    gpus_per_host: int = 1
    hosts: int | None = None
    """None if hosts are not counted."""
    replicas: int = 1
    every_gpu: bool = False
    """Whether a launch over several hosts must use all of their GPUs; on one host some may stay free."""

    @property
    def whole(self) -> bool:
        """Whether the GPUs are those of whole hosts."""
        return self.hosts is not None and self.hosts * self.gpus_per_host == self.gpus

    def holds(self, ranks: int, stages: int) -> bool:
        """Whether this many processes have their GPUs here, as a launch places them."""
        world = ranks * stages * self.replicas
        if world > self.gpus or (ranks > self.gpus_per_host and ranks % self.gpus_per_host):
            return False
        if self.replicas > 1 and (ranks * stages > self.gpus_per_host or self.gpus_per_host % ranks):
            return False
        if self.replicas > 1 and stages > 1 and self.hosts != 1:
            return False  # ray-serve has no pipelines
        return world == self.gpus or not self.every_gpu or self.hosts == 1


def heads_legal(shape: ModelShape, ranks: int) -> bool:
    """Whether the heads other than the queries' can be cut this way; callers check the query heads."""
    if shape.compressed is not None:
        return shape.compressed.o_groups % ranks == 0
    if shape.linear is not None and (shape.linear.key_heads % ranks or shape.linear.value_heads % ranks):
        return False
    return shape.mla is not None or shape.kv_heads % ranks == 0 or ranks % shape.kv_heads == 0


def legal_tensor_parallel(shape: ModelShape, most: int, expert_parallel: bool = False) -> list[int]:
    """Return every size up to `most` at which the model can be cut."""
    sizes = [one for one in range(1, min(most, shape.heads) + 1) if shape.heads % one == 0]
    return [
        one
        for one in sizes
        if heads_legal(shape, one)
        and not uneven_sizes(shape, one, expert_parallel)
        and not broken_shards(shape, one, expert_parallel)
        and not (expert_parallel and shape.experts is not None and shape.experts.count % one)
    ]


def legal_ways(shape: ModelShape, place: Place, expert_parallel: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the legal pairs of tensor and pipeline parallel, the largest tensor parallel and fewest stages first."""
    for ranks in reversed(legal_tensor_parallel(shape, place.gpus, expert_parallel)):
        for stages in range(1, min(shape.layers, place.gpus // ranks) + 1):
            if place.holds(ranks, stages):
                yield ranks, stages


def ways_out(shape: ModelShape, place: Place, stages: int, expert_parallel: bool = False) -> str:
    """Return what to set instead, on these GPUs or on another number of hosts; empty if nothing is legal."""
    ways = list(legal_ways(shape, place, expert_parallel))
    same = sorted(ranks for ranks, parts in ways if parts == stages)[-MOST_NAMED:]
    changes = []
    if same:
        named = f"one of {', '.join(map(str, same))}" if len(same) > 1 else str(same[0])
        changes.append(f"set tensor_parallel to {named}")
    elif ways:
        changes.append(f"set tensor_parallel to {ways[0][0]} and pipeline_parallel to {ways[0][1]}")
    if place.every_gpu and place.whole and (place.hosts or 0) > 1:
        changes += _other_hosts(shape, place, stages, expert_parallel)
    return ", or ".join(changes)


def _other_hosts(shape: ModelShape, place: Place, stages: int, expert_parallel: bool) -> list[str]:
    """Return the next smaller and the next larger number of hosts at which the number of stages can stay."""
    found, now = [], place.hosts or 1
    for counts in (range(now - 1, 1, -1), range(now + 1, 2 * now + 1)):
        for hosts in counts:
            other = replace(place, hosts=hosts, gpus=hosts * place.gpus_per_host)
            ranks, rest = divmod(other.gpus, stages * place.replicas)
            if rest or stages > shape.layers or not other.holds(ranks, stages):
                continue
            if ranks in legal_tensor_parallel(shape, ranks, expert_parallel):
                found.append(f"list {hosts} hosts with tensor_parallel {ranks}")
                break
    return found
