# SPDX-License-Identifier: Apache-2.0
"""The parts of the test suite, and which of them a run has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
PARTS = Path(__file__).with_name("parts.yml")


@dataclass(frozen=True)
class Part:
    """What runs in one process tree, in labs of its own."""

    name: str
    minutes: float
    """Of all of it, beside two other parts on two processors: slices are made by it."""
    in_test: bool
    """Whether `make test` has it."""
    test_minutes: float = 0.0
    """Of what `make test` has of it, where that is less than all."""
    first: bool = False
    """Whether the labs wait for it: their nodes would leave it next to no processor time."""
    command: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    system: str = ""
    """What the nodes of the scenarios run, where it is not what they usually run."""

    def length(self, suite: str) -> float:
        """How long it takes: what takes longest has to start first."""
        return self.test_minutes if suite == "test" and self.test_minutes else self.minutes

    def argv(self, suite: str, extra: Sequence[str] = ()) -> list[str]:
        """The command line of this part: `test` leaves out what is marked as extended, `all` leaves out nothing."""
        if self.scenarios:
            system = ["--os", self.system] if self.system else []
            return ["python", "-m", "tests.suite.molecule", "--lab", self.name, *system, *self.scenarios]
        if self.tests:
            left_out = [] if suite == "all" else ["-m", "not extended"]
            return ["pytest", *self.tests, "-v", *left_out, *extra]
        return [word.format(suite=suite) for word in self.command]


def load(path: Path = PARTS) -> list[Part]:
    """All parts, in the order of the file."""
    document: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [
        Part(
            name=name,
            minutes=entry["minutes"],
            in_test=entry.get("test", False),
            test_minutes=entry.get("test_minutes", 0.0),
            first=entry.get("first", False),
            command=tuple(entry.get("command", ())),
            tests=tuple(entry.get("tests", ())),
            scenarios=tuple(entry.get("scenarios", ())),
            system=entry.get("os", ""),
        )
        for name, entry in document.items()
    ]


def slices(parts: Sequence[Part], count: int) -> list[list[Part]]:
    """All parts in so many slices of about the same length: the longest part first, each into the shortest slice."""
    found: list[list[Part]] = [[] for _ in range(count)]
    for part in sorted(parts, key=lambda part: (-part.minutes, part.name)):
        min(found, key=lambda members: sum(member.minutes for member in members)).append(part)
    return found


def parse_slice(text: str) -> tuple[int, int]:
    """`2/4` is the second of four."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ValueError(f"the slice is {text!r}; expected NUMBER/COUNT, for example 1/4")
    return int(number), int(count)


def chosen(parts: Sequence[Part], suite: str, slice_: str = "", only: Sequence[str] = ()) -> list[Part]:
    """The parts of a run, those that take longest first."""
    unknown = set(only) - {part.name for part in parts}
    if unknown:
        names = ", ".join(part.name for part in parts)
        raise ValueError(f"there is no part {', '.join(sorted(unknown))}; expected some of {names}")
    if only:
        members = [part for part in parts if part.name in only]
    elif suite == "test":
        members = [part for part in parts if part.in_test]
    elif slice_:
        number, count = parse_slice(slice_)
        members = slices(parts, count)[number - 1]
    else:
        members = list(parts)
    return sorted(members, key=lambda part: (not part.first, -part.length(suite)))
