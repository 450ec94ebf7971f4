# SPDX-License-Identifier: Apache-2.0
"""What a benchmark asks of a server, as the catalog describes it (catalog/README.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml

USUAL = ("latency", "chat")
"""What is measured where nobody says what."""


@dataclass(frozen=True)
class Workload:
    """Prompts of one kind, at each number of streams (closed loop) and at each rate (open loop)."""

    name: str
    prompts: str = "random"
    input: int | None = None
    output: int | None = None
    streams: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    repeats: int = 3

    @property
    def tokens(self) -> int:
        """The most that one request needs of the context, as far as that is known."""
        return (self.input or 0) + (self.output or 0)


def load_workloads(directories: Iterable[str | Path]) -> dict[str, Workload]:
    """The workloads of every directory's file, the first of a name wins."""
    found: dict[str, Workload] = {}
    for path in (Path(directory) / "workloads.yml" for directory in directories):
        for entry in load_yaml(path) if path.is_file() else ():
            own = {key: value for key, value in entry.items() if key in Workload.__dataclass_fields__}
            found.setdefault(entry["name"], Workload(**own))
    return found
