# SPDX-License-Identifier: Apache-2.0
"""The machines of a pretended cluster, with the units they run and the messages on their way."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    GroupPlan,
    Held,
    NodeReport,
    Order,
    Timing,
    UnitPlan,
)

TIMING = Timing(
    start_timeout=15,
    stage_timeout=8,
    stop_timeout=6,
    heartbeat_timeout=4,
    probe_interval=3,
    probe_timeout=2,
    failure_threshold=2,
    backoff=1,
    max_backoff=8,
    start_attempts=4,
    stable_after=12,
)
RAY, SERVER = "ray.service", "server.service"
LOADING = 3
"""Seconds from a server that runs to its first answer."""
STOPPING, SYSTEMD_KILLS = 2, 12
"""Seconds a unit takes to stop, and after which systemd kills one that does not; the head's stop timeout is shorter."""


def ray_group(size: int, timing: Timing = TIMING) -> GroupPlan:
    """The Ray head, then the Ray workers, then the server."""
    nodes = {
        f"n{rank}": (UnitPlan(RAY, 0, "ray"), UnitPlan(SERVER, 2, "server"))
        if rank == 0
        else (UnitPlan(RAY, 1, "ray"),)
        for rank in range(size)
    }
    return GroupPlan("server", "n0", nodes, timing)


def ranks_group(size: int, timing: Timing = TIMING) -> GroupPlan:
    """The engine's own multi-node mode: every rank at once."""
    return GroupPlan("server", "n0", {f"n{rank}": (UnitPlan(SERVER, 0, "server"),) for rank in range(size)}, timing)


@dataclass
class Unit:
    """off -> starting -> running -> stopping -> off; `epoch` is that of the order that started it."""

    state: str = "off"
    epoch: str = ""
    since: int = 0
    failed: bool = False

    @property
    def alive(self) -> bool:
        return self.state != "off"


@dataclass
class Node:
    name: str
    plan: tuple[UnitPlan, ...]
    delay: int
    units: dict[str, Unit] = field(default_factory=dict)
    held: Held = field(default_factory=Held)
    boot: int = 1
    down_until: int = 0
    supervisor_until: int = 0
    cut_until: int = 0
    leak_until: int = 0
    drained_until: int = 0
    broken_until: int = 0
    stuck: bool = False
    hung: bool = False
    order: Order | None = None
    heard: int = 0
    orders: deque[tuple[int, Order]] = field(default_factory=deque)
    reports: deque[tuple[int, NodeReport]] = field(default_factory=deque)
