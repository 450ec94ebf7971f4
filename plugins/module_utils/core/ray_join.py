# SPDX-License-Identifier: Apache-2.0
"""Which nodes joined a Ray cluster, and why one did not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .systemd import UnitState

# One Python process polls inside the head's container: importing Ray costs seconds, asking again nothing.
JOIN_SCRIPT = """
import json, sys, time
import ray
address, wanted, size, limit = sys.argv[1], set(sys.argv[2].split(",")), int(sys.argv[3]), float(sys.argv[4])
deadline = time.monotonic() + limit
ray.init(address=address, logging_level="ERROR", log_to_driver=False)
while True:
    nodes = [
        {"address": node["NodeManagerAddress"], "alive": bool(node["Alive"])} for node in ray.nodes()
    ]
    alive = {n["address"] for n in nodes if n["alive"]}
    if (wanted <= alive and len(alive) >= size) or time.monotonic() >= deadline:
        break
    time.sleep(0.5)
print()
print("firstlight-nodes " + json.dumps(nodes))
"""

MARK = "firstlight-nodes "


def parse_nodes(text: str) -> list[dict[str, Any]] | None:
    """The list the script printed, or None when it did not get that far."""
    for line in reversed(text.splitlines()):
        if line.startswith(MARK):
            nodes: list[dict[str, Any]] = json.loads(line.removeprefix(MARK))
            return nodes
    return None


def alive(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Addresses of the live nodes, once each: a node that came back is listed dead and alive."""
    return sorted({str(node["address"]) for node in nodes if node["alive"]})


def missing(nodes: Sequence[Mapping[str, Any]], members: Mapping[str, str]) -> list[str]:
    """Names of the hosts whose address is not alive in the cluster."""
    there = set(alive(nodes))
    return [members[address] for address in members if address not in there]


NOT_LET_IN = "its token differs from the head's; run the ray_cluster role on it and on the head"


def cause(state: UnitState, log: Sequence[str], same_token: bool = True) -> str:
    """Why a node did not join, from its unit, its token and the last lines of its log."""
    if state.load == "masked":
        return "its unit firstlight-ray.service is masked; unmask it: systemctl unmask firstlight-ray.service"
    if state.load != "loaded":
        return "it has no unit firstlight-ray.service; run the ray_cluster role on it"
    if not same_token:
        return NOT_LET_IN
    text = "\n".join(log).lower()
    for needles, reason in _CAUSES:
        if any(needle in text for needle in needles):
            return reason
    if state.active in ("inactive", "failed"):
        return f"its unit firstlight-ray.service is {state.words}; see journalctl -u firstlight-ray.service there"
    return f"its unit firstlight-ray.service is {state.words} and its log names no known cause"


_CAUSES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("invalidauthtoken", "authenticationerror", "unauthenticated", "authentication token is"),
        NOT_LET_IN,
    ),
    (
        ("version mismatch",),
        "its Ray or Python version differs from the head's; both must run the same image",
    ),
    (
        ("no such image", "unable to find image", "manifest unknown"),
        "the image is not on it; run the inference_image role first",
    ),
    (
        ("bind source path does not exist",),
        "the model directory or the token is not on it; run the model_weights and ray_cluster roles first",
    ),
    (
        ("could not select device driver", "nvidia-container-cli", "unknown or invalid runtime name"),
        "its Docker cannot hand GPUs to a container; check the container toolkit (container_runtime role)",
    ),
    (
        (
            "failed to connect to gcs",
            "unable to connect to gcs",
            "connection refused",
            "rpc error: deadline exceeded",
        ),
        "it cannot reach the head over the fabric; prove the fabric (ping the head's address there)",
    ),
)
"""Words of Ray and Docker in their logs, in the order in which one cause explains the others."""
