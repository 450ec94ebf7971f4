# SPDX-License-Identifier: Apache-2.0
"""Check the shards of a model's matrices: whether all are equal, and whole in quantisation blocks or groups."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.memory import VOCABULARY_PADDING
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import Matrix, ModelShape


def _shards(shape: ModelShape, ranks: int) -> Iterator[tuple[Matrix, int, int]]:
    """Yield every cut of a quantised matrix: the size that is cut, and the unit every shard must be a multiple of."""
    for one in shape.matrices:
        if one.fmt is None or one.fmt.padded or one.place == "vision" or one.split in ("whole", "vocab"):
            continue
        outputs, inputs = one.fmt.block or (0, one.fmt.group or 0)
        if one.split == "row" and inputs:
            yield one, one.inputs, inputs
        elif one.split == "column" and outputs:
            for part in one.parts or (one.outputs,):
                yield one, part, outputs
        elif one.split == "kv" and outputs:
            # Replicated when there are more GPUs than heads: then a GPU has one whole head.
            heads = min(ranks, shape.kv_heads)
            yield one, one.outputs * ranks // heads, outputs


def _whole(size: int, ranks: int, unit: int) -> bool:
    return size % ranks == 0 and size // ranks % unit == 0


def broken_shards(shape: ModelShape, ranks: int, expert_parallel: bool = False) -> list[tuple[str, int, int]]:
    """Return the matrices whose shards are not whole blocks or groups: name, size that is cut, unit."""
    broken: list[tuple[str, int, int]] = []
    for one, size, unit in _shards(shape, ranks):
        parts = 1 if one.expert and expert_parallel else ranks
        # Uncut matrices may end inside a block, except experts, whose gate and up matrices lie in one tensor.
        if parts == 1 and not one.expert:
            continue
        if not _whole(size, parts, unit) and (one.name, size, unit) not in broken:
            broken.append((one.name, size, unit))
    return broken


def uneven_sizes(shape: ModelShape, ranks: int, expert_parallel: bool = False) -> list[tuple[str, int]]:
    """Return sizes that engines cut into equal parts but that are not divisible: name and size. Heads are excluded."""
    uneven: list[tuple[str, int]] = []
    for one in shape.matrices:
        if one.place == "vision" or (one.expert and expert_parallel):
            continue
        if one.split == "vocab":
            sizes: tuple[int, ...] = (-(-one.outputs // VOCABULARY_PADDING) * VOCABULARY_PADDING,)
        elif one.split == "column":
            sizes = one.parts or (one.outputs,)
        else:
            sizes = (one.inputs,) if one.split == "row" else ()
        uneven += [(one.name, size) for size in dict.fromkeys(sizes) if size % ranks]
    return list(dict.fromkeys(uneven))
