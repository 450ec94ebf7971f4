# SPDX-License-Identifier: Apache-2.0
"""The serial number of a machine, from the kernel's file or from the firmware's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.modules.machine_identity import ASK, FIRMWARE, read_serial


class Machine(Host):
    """A host with this file, whose dmidecode says that."""

    def __init__(self, shown: str | None, said: str, status: int = 0) -> None:
        self.shown, self.said, self.status = shown, said, status

    def read_text(self, path: str) -> str | None:
        assert path == FIRMWARE
        return self.shown

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> Result:
        assert tuple(argv) == ASK
        return Result(tuple(argv), self.status, self.said)


@pytest.mark.parametrize(
    ("machine", "serial"),
    [
        (Machine("1423725010001\n", "other"), "1423725010001"),
        (Machine(None, "LAB-SPARK2-1\n"), "LAB-SPARK2-1"),
        (Machine(None, "", status=127), ""),
        (Machine("To be filled by O.E.M.\n", "other"), ""),
        (Machine("Not Specified\n", ""), ""),
    ],
)
def test_the_serial_number(machine: Machine, serial: str) -> None:
    assert read_serial(machine) == serial
