# SPDX-License-Identifier: Apache-2.0
"""What the head's supervisor remembers of a group beyond its own life and a boot of its machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Memory:
    """Written down, durably, before the order it belongs to is given."""

    attempts: int = 0
    """Failed starts in a row."""
    reason: str = ""
    """Why the last of them failed."""
    starting: str = ""
    """The epoch that is starting; empty once it serves or has ended."""
    ended: str = ""
    """The epoch that ended last: whatever of it still runs is not taken over."""
    given_up: str = ""
    """Why it stays down; empty while it does not."""
    boot: str = ""
    """The boot of the head in which this was written."""
    served: str = ""
    """The epoch that last gave a completion: a supervisor that is restarted beside it need not wait for the first."""
    late: str = ""
    """The epoch that ended last, where its time was over: nothing of it had failed by itself."""

    def after_failure(self, words: str, most: int) -> Memory:
        """With one more failed start, the last of `most` that are tried."""
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
    """The memory in `data`; what is not there or makes no sense is not remembered."""
    attempts = data.get("attempts")
    words = {field.name: data.get(field.name) for field in fields(Memory) if field.name != "attempts"}
    return Memory(
        attempts if type(attempts) is int and attempts >= 0 else 0,
        **{name: value for name, value in words.items() if isinstance(value, str)},
    )
