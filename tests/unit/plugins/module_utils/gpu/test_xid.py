# SPDX-License-Identifier: Apache-2.0
"""The table of Xid numbers, and the words that decide."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.xid import APPLICATION, FATAL, WATCH, XIDS, meaning

OUT_OF_SERVICE = (48, 56, 57, 58, 62, 63, 64, 65, 68, 69, 73, 74, 79, 80, 81, 92, 95, 119, 120)


@pytest.mark.parametrize("number", OUT_OF_SERVICE)
def test_what_takes_a_host_out_of_service(number: int) -> None:
    assert XIDS[number].severity == FATAL


@pytest.mark.parametrize("number", [13, 31, 43, 45])
def test_what_a_program_did_is_no_hardware_fault(number: int) -> None:
    assert XIDS[number].severity == APPLICATION


def test_every_number_has_words_and_a_remedy() -> None:
    assert all(one.name and one.remedy and one.severity in (FATAL, WATCH, APPLICATION) for one in XIDS.values())
    assert all(not text.endswith(".") for one in XIDS.values() for text in (one.name, one.remedy))


@pytest.mark.parametrize(
    ("number", "text", "severity"),
    [
        (154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", FATAL),
        (154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", FATAL),
        (154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", WATCH),
        (154, "GPU recovery action cha", FATAL),
        (149, "NETIR_LINK_EVT Fatal XC0 i0 Link 01", FATAL),
        (149, "NETIR_LINK_EVT Nonfatal XC0 i0 Link 01", WATCH),
        (149, "", FATAL),
    ],
)
def test_words_that_decide(number: int, text: str, severity: str) -> None:
    known = meaning(number, text)
    assert known
    assert known.severity == severity


def test_a_reboot_is_asked_for_where_the_driver_asks_for_one() -> None:
    known = meaning(154, "changed from 0x0 (None) to 0x2 (Node Reboot Required)")
    assert known
    assert "Node Reboot Required" in known.name
    assert "reboot" in known.remedy


def test_an_unknown_number() -> None:
    assert meaning(9999) is None
