# SPDX-License-Identifier: Apache-2.0
"""Measure the same load on several GPU layouts: tensor-parallel sizes, and pipelines for comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.rungs import Rung

DIRECTORY = "layouts"
WORKLOAD = "recipe-scaling"
_NAME = re.compile(r"(?:(?:tp)?(\d{1,4}))?(?:pp(\d{1,4}))?")


def parse_layouts(text: str) -> list[tuple[int, int]]:
    """Parse pairs of tensor- and pipeline-parallel sizes from `1,2,4` or `tp4,tp2pp2,pp4`. Raises ValueError."""
    found: list[tuple[int, int]] = []
    for word in text.lower().split(","):
        match = _NAME.fullmatch(word.strip())
        sizes = tuple(int(one or 1) for one in match.groups()) if match and word.strip() else (0, 0)
        if 0 in sizes:
            raise ValueError(
                f"{word!r} is not a layout, expected a tensor-parallel size such as 4 or tp4, a pipeline such as pp4, "
                "or both: tp2pp2"
            )
        if sizes not in found:
            found.append((sizes[0], sizes[1]))
    return found


def layout_name(tensor: int, pipeline: int) -> str:
    """Return the name of a layout, in the form that `parse_layouts` reads."""
    return f"tp{tensor}" if pipeline == 1 else f"pp{pipeline}" if tensor == 1 else f"tp{tensor}pp{pipeline}"


def layout_rungs(layouts: Sequence[tuple[int, int]]) -> list[Rung]:
    """Return one rung per layout."""
    return [
        Rung(layout_name(tensor, pipeline), "layout", {"tensor_parallel": tensor, "pipeline_parallel": pipeline})
        for tensor, pipeline in layouts
    ]


def layouts_of(
    document: Mapping[str, Any], shares: Mapping[str, float | None], replicas: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the measurements of each layout.

    By layout name, `shares` has the estimated share of communication in a step, and `replicas` the number of replicas,
    if known.
    """
    listed = []
    for rung in document["rungs"]:
        tensor, pipeline = rung["change"]["tensor_parallel"], rung["change"]["pipeline_parallel"]
        share = shares.get(rung["name"]) if rung["summary"] else None
        listed.append(
            {
                "tensor_parallel": tensor,
                "pipeline_parallel": pipeline,
                "gpus": tensor * pipeline * replicas.get(rung["name"], 1),
                "summary": rung["summary"],
                "problem": rung["reason"] or None,
                "communication": {"share": share, "source": None if share is None else "estimate"},
            }
        )
    return listed
