# SPDX-License-Identifier: Apache-2.0
"""Memory as a bar: what takes how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GIB = 1024**3
WIDTH = 60

_PARTS = (
    ("weights_bytes", "weights", "#", "blue"),
    ("activation_bytes", "activations", "a", "magenta"),
    ("runtime_bytes", "runtime", "r", "yellow"),
    ("kv_bytes", "cache", "=", "green"),
    ("free_bytes", "not used", ".", "white"),
    ("os_bytes", "left to the system", "o", "red"),
)


def memory_bar(memory: Mapping[str, Any], *, colour: bool) -> list[str]:
    """The bar and its legend, as lines of rich markup; letters tell the parts apart where colours do not."""
    total = int(memory["total_bytes"])
    sizes = {name: max(0, int(memory.get(name) or 0)) for name, *_ in _PARTS}
    cells = _cells(list(sizes.values()), max(total, sum(sizes.values())))
    bar, legend = "", []
    for (name, label, letter, shade), count in zip(_PARTS, cells, strict=True):
        if not sizes[name]:
            continue
        mark = "█" if colour else letter
        bar += f"[{shade}]{mark * count}[/]"
        legend.append(f"[{shade}]{mark}[/] {label} {sizes[name] / GIB:.1f}")
    return [f"  {bar} {total / GIB:.1f} GiB", f"  {'  '.join(legend)}"]


def _cells(sizes: list[int], total: int) -> list[int]:
    """Cells of the bar for each size: what is there at all has one, and together they fill it."""
    if total <= 0:
        return [0] * len(sizes)
    cells = [max(1, round(WIDTH * size / total)) if size else 0 for size in sizes]
    while sum(cells) > WIDTH:
        cells[cells.index(max(cells))] -= 1
    return cells
