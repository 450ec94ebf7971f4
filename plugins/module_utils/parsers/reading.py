# SPDX-License-Identifier: Apache-2.0
"""A reading: what was understood of one tool's output, and what was not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

KINDS = (
    "topo",
    "nvlink",
    "query-gpu",
    "smi-q",
    "smi-xml",
    "smi-table",
    "smi-list",
    "smi-version",
    "proc-version",
    "fabricmanager",
    "ibstat",
    "ibdev2netdev",
    "rdma-link",
    "ethtool",
    "kernel-log",
    "ray-status",
    "vllm-metrics",
    "lspci",
    "modules",
    "dcgm-diag",
)
"""The kinds of output that can be parsed, by the names that people and programs use."""

_QUOTED = 200
"""The most characters quoted of a text that was not understood."""


@dataclass(frozen=True)
class Reading:
    """One tool's output about one host.

    `data` is what was understood, as plain values that can become JSON; its shape is the parser's. `problems` quotes
    what was not understood and names what is missing: a reading with problems proves nothing about what they touch.
    """

    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    source: str = ""
    """The file or command that it came from."""
    host: str = ""

    @property
    def understood(self) -> bool:
        """Whether anything could be read at all."""
        return bool(self.data)


def quoted(text: str) -> str:
    """Quote a piece of a tool's output for a message: on one line, in quotation marks, truncated."""
    line = " ".join(str(text).split())
    return f'"{line[: _QUOTED - 3]}..."' if len(line) > _QUOTED else f'"{line}"'


def of_kind(readings: Iterable[Reading], *kinds: str) -> list[Reading]:
    """The readings of these kinds, in order."""
    return [one for one in readings if one.kind in kinds]
