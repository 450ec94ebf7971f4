# SPDX-License-Identifier: Apache-2.0
"""How long each fault kept the cluster from answering, and what of that the engine takes to start."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Record:
    """One fault and how it ended."""

    name: str
    ended: str
    """`served`: without a person. `stopped`: it said why, and was served again after a documented command."""
    seconds: float
    """From the fault to the next good completion; the commands of a person in it are counted, his thinking is not."""
    engine: float | None
    """Of these, from the start of the group's first unit to the first answer."""
    words: str = ""
    """What it said about the fault."""


@dataclass
class Records:
    """Those of one run."""

    found: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> None:
        self.found.append(record)
        print(f"\n{line(asdict(record))}", flush=True)

    def note(self, name: str, seconds: float) -> None:
        """A figure beside the faults."""
        self.add(Record(name, "served", round(seconds, 1), None))

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([asdict(record) for record in self.found], indent=2) + "\n", encoding="utf-8")


def line(record: Mapping[str, Any]) -> str:
    engine = "      -" if record["engine"] is None else f"{record['engine']:7.1f}"
    return f"{record['name']:48} {record['ended']:8} {record['seconds']:9.1f} {engine}  {record['words']}".rstrip()


def table(records: Sequence[Record]) -> list[str]:
    """Lines for a person."""
    head = f"{'fault':48} {'ended':8} {'seconds':>9} {'engine':>7}  what it said"
    return [head, *(line(asdict(record)) for record in records)]


def moment(text: str) -> float:
    """The seconds of the epoch that an ISO 8601 time in the supervisor's files means."""
    return datetime.datetime.fromisoformat(text).timestamp()
