# SPDX-License-Identifier: Apache-2.0
"""The serial number of a machine, from the kernel's file or from the firmware's tables."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.modules.machine_identity import ASK, FIRMWARE, read_serial

from tests.unit.fake_host import Answer, FakeHost, not_installed


def machine(shown: str | None, said: Answer) -> FakeHost:
    """A host with this file, whose dmidecode says that."""
    return FakeHost({" ".join(ASK): said}, {FIRMWARE: shown})


@pytest.mark.parametrize(
    ("host", "serial"),
    [
        (machine("1423725010001\n", "other"), "1423725010001"),
        (machine(None, "LAB-SPARK2-1\n"), "LAB-SPARK2-1"),
        (machine(None, not_installed), ""),
        (machine("To be filled by O.E.M.\n", "other"), ""),
        (machine("Not Specified\n", ""), ""),
    ],
)
def test_the_serial_number(host: FakeHost, serial: str) -> None:
    assert read_serial(host) == serial
