# SPDX-License-Identifier: Apache-2.0
"""A supervisor's current knowledge of all its groups, assembled for its state file and for systemd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import Config
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import NodeReport

from .client import Client
from .head import GroupHead
from .node import Node
from .server import Server
from .shown import Clocks, HeadView, head_part, node_part, status_line
from .state_files import VERSION, moment


class Picture:
    """Reads the parts of a supervisor without changing them."""

    def __init__(
        self,
        config: Config,
        nodes: Mapping[str, Node],
        heads: Mapping[str, GroupHead],
        server: Server | None,
        client: Client | None,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._nodes = nodes
        self._heads = heads
        self._server = server
        self._client = client
        self._clock = clock
        self._since: dict[str, tuple[str, float]] = {}

    def heard_of(self, name: str) -> dict[str, tuple[float, NodeReport]]:
        """Return for each node of a group how long ago it last reported, and that report."""
        heard = self._server.heard_of(name, self._clock()) if self._server else {}
        own = self._nodes[name].report
        return {**heard, **({self._config.node: (0.0, own)} if own else {})}

    def news(self) -> bool:
        """Whether a phase has changed since the last call."""
        before = dict(self._since)
        for name, (phase, _) in self.phases().items():
            if self._since.get(name, ("", 0.0))[0] != phase:
                self._since[name] = (phase, self._clock())
        return before != self._since

    def phases(self) -> dict[str, tuple[str, str]]:
        """Return phase and reason of each group, as decided here or as last reported by the head."""
        phases = {}
        for name in self._nodes:
            decision = self._heads[name].decision if name in self._heads else None
            told = self._client.told.get(name) if self._client else None
            known = decision or told
            phases[name] = (known.phase, known.why) if known else ("unknown", "")
        return phases

    def trouble(self, problem: str) -> str:
        """Describe the problems of the supervisor itself."""
        parts = [problem, *(part.problem for part in (self._server, self._client) if part)]
        parts += [node.problem for node in self._nodes.values()]
        return "; ".join(dict.fromkeys(part for part in parts if part))

    def line(self, problem: str) -> str:
        return status_line(self.phases(), self.trouble(problem))

    def state(self, problem: str, clocks: Clocks) -> dict[str, Any]:
        """Return the content of the whole state file."""
        self.news()
        return {
            "version": VERSION,
            "node": self._config.node,
            "written_at": moment(clocks.wall),
            "head": self._config.head,
            "connected": self._client.connected if self._client else True,
            "problem": self.trouble(problem),
            "groups": {name: self._group(name, clocks) for name in self._nodes},
        }

    def _group(self, name: str, clocks: Clocks) -> dict[str, Any]:
        head, node = self._heads.get(name), self._nodes[name]
        if head:
            view = HeadView(head.decision, head.since, head.probe, head.answered_at, head.load, head.history)
            return head_part(head.group, view, self.heard_of(name), clocks)
        phase, why = self.phases()[name]
        return node_part(phase, why, self._since[name][1], node.held.epoch, node.report, clocks)
