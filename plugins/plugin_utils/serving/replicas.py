# SPDX-License-Identifier: Apache-2.0
"""Replicas that Ray Serve spreads over hosts: clients get answers even while some replicas are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def read_replicas(found: Any) -> dict[str, int] | None:
    """Return the planned and answering replicas as the head reported them; None if it has or reports none."""
    if not isinstance(found, Mapping) or not all(isinstance(found.get(key), int) for key in ("answer", "planned")):
        return None
    return {"answer": found["answer"], "planned": found["planned"]}


def fewer_replicas(replicas: Mapping[str, int] | None, nodes: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe how many replicas are left and which hosts are at fault; empty if none is missing."""
    if not replicas or replicas["answer"] >= replicas["planned"]:
        return ""
    told = [f"{replicas['answer']} of {replicas['planned']} replicas answer"]
    told += [f"{name}: {why}" for name, node in nodes.items() if (why := _why_away(node))]
    return "; ".join(told)


def _why_away(node: Mapping[str, Any]) -> str:
    if node["drained"] is not None:
        return "out of service"
    if node["problems"]:
        return str(node["problems"][0])
    return ", ".join(f"{unit} is {words}" for unit, words in node["units"].items() if not words.startswith("active"))
