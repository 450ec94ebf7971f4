# SPDX-License-Identifier: Apache-2.0
"""What `ray status` prints, read: which nodes are there, what they offer, what waits.

The wording changed over the releases ("Usage:" became "Total Usage:", node names got types); both are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .words import said_lines


@dataclass(frozen=True)
class RayStatus:
    """One answer of `ray status`."""

    active: int = 0
    pending: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    resources: dict[str, tuple[str, str]] = field(default_factory=dict)
    demands: tuple[str, ...] = ()

    @property
    def gpus(self) -> float:
        """GPUs that all active nodes offer together."""
        return float(self.resources.get("GPU", ("0", "0"))[1])

    @property
    def words(self) -> str:
        """For a message."""
        told = f"{self.active} active nodes with {self.gpus:g} GPUs"
        if self.failures:
            told += f", recent failures: {'; '.join(self.failures)}"
        if self.demands:
            told += f", waiting: {'; '.join(self.demands)}"
        return told


_SECTIONS = {
    "Active:": "active",
    "Idle:": "active",
    "Pending:": "pending",
    "Recent failures:": "failures",
    "Usage:": "resources",
    "Total Usage:": "resources",
    "Demands:": "demands",
    "Pending Demands:": "demands",
}


def parse_ray_status(text: str) -> RayStatus:
    """Read the report; raises ValueError when the text is something else."""
    lines: dict[str, list[str]] = {name: [] for name in set(_SECTIONS.values())}
    section = None
    seen = False
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.endswith(":") and not line.startswith(" "):
            section = _SECTIONS.get(stripped)
            seen = seen or section is not None
        elif not line.startswith(" "):
            section = None
        elif section and stripped and not stripped.startswith("(no"):
            lines[section].append(stripped)
    if not seen:
        first = (said_lines(text) or ["nothing"])[0]
        raise ValueError(f"expected the report of `ray status`, found {first[:200]!r}")
    return RayStatus(
        active=sum(_count(line) for line in lines["active"]),
        pending=tuple(lines["pending"]),
        failures=tuple(lines["failures"]),
        resources=_resources(lines["resources"]),
        demands=tuple(lines["demands"]),
    )


def _count(line: str) -> int:
    """Nodes a line like ` 1 node_3df9...` stands for."""
    first = line.split(maxsplit=1)[0]
    return int(first) if first.isdecimal() else 0


def _resources(lines: list[str]) -> dict[str, tuple[str, str]]:
    """Used and total of lines like ` 0.0/16.0 GPU`."""
    found = {}
    for line in lines:
        amounts, _, name = line.partition(" ")
        used, separator, total = amounts.partition("/")
        if separator and name:
            found[name.split()[0]] = (used, total)
    return found
