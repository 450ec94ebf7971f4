# SPDX-License-Identifier: Apache-2.0
"""What a unit has said, as a message shows it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.module_utils.units import last_lines


class Machine(Host):
    """A systemd that started the unit at this moment, and a journal of one line."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.asked: list[tuple[str, ...]] = []

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> Result:
        del timeout, env, stdin
        self.asked.append(tuple(argv))
        if argv[0] == "systemctl":
            return Result(tuple(argv), 0, f"InactiveExitTimestampMonotonic={self.started * 1e6:.0f}\n")
        return Result(tuple(argv), 0, "token very-secret refused\n\n")


def test_lines_of_an_earlier_start_are_left_out() -> None:
    machine = Machine(time.monotonic() - 30)
    assert last_lines(machine, "firstlight-ray.service", 40, ["very-secret"]) == ["token ******** refused"]
    since = next(word for word in machine.asked[-1] if word.startswith("--since=@"))
    assert abs(time.time() - 30 - int(since.removeprefix("--since=@"))) < 5


def test_a_unit_that_systemd_has_forgotten_is_read_as_a_whole() -> None:
    machine = Machine(0)
    assert last_lines(machine, "firstlight-ray.service", 40) == ["token very-secret refused"]
    assert not any(word.startswith("--since") for word in machine.asked[-1])
