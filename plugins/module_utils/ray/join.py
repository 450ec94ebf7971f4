# SPDX-License-Identifier: Apache-2.0
"""Find out which nodes joined a Ray cluster, and why one did not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..systemd import UnitState

# One Python process polls inside the head's container: importing Ray takes seconds, polling again next to nothing.
JOIN_SCRIPT = """
import json, sys, time
import ray
address, wanted, size, limit = sys.argv[1], set(sys.argv[2].split(",")), int(sys.argv[3]), float(sys.argv[4])
gpus = float(sys.argv[5]) if len(sys.argv) > 5 else 0.0
deadline = time.monotonic() + limit
ray.init(address=address, logging_level="ERROR", log_to_driver=False)
while True:
    nodes = [
        {
            "address": node["NodeManagerAddress"],
            "alive": bool(node["Alive"]),
            "gpus": float((node.get("Resources") or {}).get("GPU", 0)),
            "hostname": node.get("NodeManagerHostname") or "",
        }
        for node in ray.nodes()
    ]
    alive = {n["address"] for n in nodes if n["alive"]}
    short = {n["address"] for n in nodes if n["alive"] and n["gpus"] < gpus and n["address"] in wanted}
    complete = wanted <= alive and len(alive) >= size and not short
    if complete or time.monotonic() >= deadline:
        break
    time.sleep(0.5)
print()
print("firstlight-nodes " + json.dumps(nodes))
if not complete:
    told = [f"{one} is not in the Ray cluster" for one in sorted(wanted - alive)]
    told += [f"{one} offers fewer than {gpus:g} GPUs" for one in sorted(short)]
    told = told or [f"the Ray cluster has {len(alive)} nodes, expected {size}"]
    print(f"after {limit:g} s: " + "; ".join(told) + "; see journalctl -u firstlight-ray there", file=sys.stderr)
    sys.exit(1)
"""
"""Arguments: the head's address, the expected addresses, the number of nodes, seconds to wait, GPUs per node."""

MARK = "firstlight-nodes "


def parse_nodes(text: str) -> list[dict[str, Any]] | None:
    """Return the list that the script printed; None if it did not get that far."""
    for line in reversed(text.splitlines()):
        if line.startswith(MARK):
            nodes: list[dict[str, Any]] = json.loads(line.removeprefix(MARK))
            return nodes
    return None


def alive(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the addresses of the live nodes, once each: a node that rejoined is listed dead and alive."""
    return sorted({str(node["address"]) for node in nodes if node["alive"]})


def missing(nodes: Sequence[Mapping[str, Any]], members: Mapping[str, str]) -> list[str]:
    """Return the names of hosts whose address is not alive in the cluster."""
    there = set(alive(nodes))
    return [members[address] for address in members if address not in there]


def short(nodes: Sequence[Mapping[str, Any]], members: Mapping[str, str], gpus: int) -> dict[str, int]:
    """Return the hosts in the cluster that offer fewer GPUs than planned, with what they offer."""
    offered: dict[str, int] = {}
    for node in nodes:
        if node["alive"] and node["address"] in members:
            offered[members[node["address"]]] = int(node.get("gpus", gpus))
    return {name: count for name, count in offered.items() if count < gpus}


def elsewhere(nodes: Sequence[Mapping[str, Any]], members: Mapping[str, str]) -> dict[str, str]:
    """Return hosts that joined under an unplanned address, with that address: they are bound to the wrong interface."""
    absent = set(missing(nodes, members))
    return {
        name: str(node["address"])
        for node in nodes
        if node["alive"]
        and node["address"] not in members
        and (name := str(node.get("hostname") or "").partition(".")[0]) in absent
    }


NOT_LET_IN = "its token differs from the head's; run the ray_cluster role on it and on the head"


@dataclass(frozen=True)
class Way:
    """The path to the head as the node itself sees it; None for what was not checked."""

    address: str = ""
    here: bool | None = None
    """Whether the planned address is on one of the node's ports."""
    head: str = ""
    refusal: str | None = None
    """Why the node cannot reach the head's port; empty if it can."""

    @property
    def problem(self) -> str | None:
        """The problem with the path, if one is known."""
        if self.here is False:
            return (
                f"its address {self.address} is on none of its ports, so Ray is bound to the wrong interface; "
                "bring the fabric up there (fabric_network role)"
            )
        if self.refusal:
            return f"it cannot reach the head at {self.head} ({self.refusal}); test the fabric, and that Ray runs there"
        return None


def cause(state: UnitState, log: Sequence[str], same_token: bool = True, way: Way | None = None) -> str:
    """Explain why a node did not join, from its unit, its token, its path to the head and its log."""
    if state.load == "masked":
        return "its unit firstlight-ray.service is masked; unmask it: systemctl unmask firstlight-ray.service"
    if state.load != "loaded":
        return "it has no unit firstlight-ray.service; run the ray_cluster role on it"
    if not same_token:
        return NOT_LET_IN
    seen = way.problem if way is not None else None
    text = "\n".join(log).lower()
    for needles, reason in _CAUSES:
        if any(needle in text for needle in needles):
            return seen if seen and reason == UNREACHABLE else reason
    if seen:
        return seen
    if state.active in ("inactive", "failed"):
        # A requested stop and a crash have the same exit status; the last log line tells them apart.
        said = said_last(log)
        last = f', its last line: "{said}"' if said else ""
        return f"its unit firstlight-ray.service is {state.words}{last}; see journalctl -u firstlight-ray.service there"
    return f"its unit firstlight-ray.service is {state.words} and its log names no known cause"


def took_too_long(log: Sequence[str]) -> bool:
    """Whether Ray timed out starting its own components: the node was busy, so a retry may succeed."""
    return any("timed out during startup" in line.lower() for line in log)


def said_last(log: Sequence[str]) -> str:
    """Return the last log line that is not systemd's own about the unit."""
    lines = [line.strip() for line in log if line.strip() and not line.startswith(SYSTEMD_WORDS)]
    return lines[-1][:300] if lines else ""


SYSTEMD_WORDS = ("firstlight-ray.service:", "Started ", "Starting ", "Stopped ", "Stopping ")

UNREACHABLE = "it cannot reach the head over the fabric; test the fabric (ping the head's address there)"

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
            "takes no connection",
            "rpc error: deadline exceeded",
        ),
        UNREACHABLE,
    ),
)
"""Strings in the logs of Ray and Docker, ordered so that a cause precedes those that it leads to."""
