# SPDX-License-Identifier: Apache-2.0
"""How long each test, step and engine start took: one JSON line each, in the file that the runner names."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "FIRSTLIGHT_TEST_EVENTS"
PART = "FIRSTLIGHT_TEST_PART"
"""The name of the part: one lab a part, where several parts have tests of one directory."""


@dataclass(frozen=True)
class Event:
    """Something that has ended."""

    kind: str
    """`test`, `step` (of a Molecule scenario), `scenario` or `engine start`."""
    name: str
    seconds: float
    outcome: str = "passed"
    message: str = ""
    """What a failed one said last."""


def note(event: Event) -> None:
    """Write it down, where somebody asked for it."""
    path = os.environ.get(FILE)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(event)) + "\n")


def read(path: Path, offset: int = 0) -> tuple[list[Event], int]:
    """The events that were written since this offset, and the offset of the next."""
    if not path.exists():
        return [], offset
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    return [Event(**json.loads(line)) for line in whole.splitlines()], offset + len(whole)
