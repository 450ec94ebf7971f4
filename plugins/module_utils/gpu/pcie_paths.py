# SPDX-License-Identifier: Apache-2.0
"""The paths between two devices as `nvidia-smi topo -m` names them, and their meaning in plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .expected import NVLINK, PCIE

NEAR = frozenset({"PIX", "PXB"})
"""Paths between a GPU and a network card that do not pass through a processor."""

_MEANINGS = {
    "PIX": "over one PCIe bridge",
    "PXB": "over several PCIe bridges",
    "PHB": "over the processor's PCIe host bridge",
    "NODE": "between PCIe host bridges of one NUMA node",
    "SYS": "between processors or NUMA nodes",
}
_LOOKS_LIKE = {
    "NV18": (
        "H100 or H200 GPUs behind NVSwitch (h100-sxm-8, h200-sxm-8, or four of them: h100-sxm-4-nvswitch, in a virtual "
        "machine h100-sxm-4-partition)"
    ),
    "NV6": "a board of four H100 without NVSwitch (h100-sxm-4)",
    "NV12": "A100 GPUs behind NVSwitch, or two H100 cards with an NVLink bridge",
    "NV4": "four A100 GPUs without NVSwitch, or two cards with an NVLink bridge",
}

Pair = tuple[str, str]


def is_nvlink(word: str) -> bool:
    """Whether the path is over NVLink rather than PCIe."""
    return word.startswith(NVLINK)


def meaning(word: str) -> str:
    """The meaning of a path's name, as part of a sentence."""
    if is_nvlink(word) and word[2:].isdigit():
        return "1 NVLink" if word == "NV1" else f"{word[2:]} NVLinks"
    return _MEANINGS.get(word, "not known")


def looks_like(word: str) -> str:
    """The machine whose pairs of GPUs have this connection, or an empty string if unknown."""
    return "PCIe cards (h100-pcie)" if word in PCIE else _LOOKS_LIKE.get(word, "")


def pairs_of(names: Iterable[str]) -> list[Pair]:
    """Every pair of names, once."""
    every = list(names)
    return [(one, other) for place, one in enumerate(every) for other in every[place + 1 :]]


def way(topo: Mapping[str, Any], one: str, other: str) -> str | None:
    """The path between two devices; None if it is unknown or differs between the two directions."""
    cells = topo.get("cells") or {}
    told = {(cells.get(one) or {}).get(other), (cells.get(other) or {}).get(one)} - {None}
    return str(told.pop()) if len(told) == 1 else None


def is_disputed(topo: Mapping[str, Any], one: str, other: str) -> bool:
    """Whether the two directions of a pair differ."""
    cells = topo.get("cells") or {}
    return len({(cells.get(one) or {}).get(other), (cells.get(other) or {}).get(one)} - {None}) > 1
