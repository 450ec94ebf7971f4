# SPDX-License-Identifier: Apache-2.0
"""What the head's supervisor remembers of a group across restarts of itself and reboots of its machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Memory:
    """The persistent memory of a group, written durably before the order it belongs to is given."""

    attempts: int = 0
    """Failed starts in a row."""
    reason: str = ""
    """Why the last of them failed."""
    starting: str = ""
    """The epoch that is starting; empty once it serves or has ended."""
    ended: str = ""
    """The epoch that ended last: what still runs of it is not adopted."""
    given_up: str = ""
    """Why the group was given up; empty if it was not."""
    boot: str = ""
    """The head's boot ID at the time of writing."""
    served: str = ""
    """The epoch that last returned a completion: a supervisor restarted during it need not wait for the first one
    again."""
    late: str = ""
    """The epoch that ended last, if it timed out: nothing of it had failed by itself."""

    def after_failure(self, words: str, most: int) -> Memory:
        """Return the memory after one more failed start; give up after `most` of them."""
        attempts = self.attempts + 1
        return replace(
            self,
            attempts=attempts,
            reason=words,
            starting="",
            ended=self.starting or self.ended,
            late="",
            given_up=words if attempts >= most else self.given_up,
        )

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def recall(data: Mapping[str, Any]) -> Memory:
    """Parse the memory from `data`; missing and invalid values get their defaults."""
    attempts = data.get("attempts")
    words = {field.name: data.get(field.name) for field in fields(Memory) if field.name != "attempts"}
    return Memory(
        attempts if type(attempts) is int and attempts >= 0 else 0,
        **{name: value for name, value in words.items() if isinstance(value, str)},
    )
