# SPDX-License-Identifier: Apache-2.0
"""ARP frames, byte for byte."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity import arp
from hypothesis import given
from hypothesis import strategies as st

MAC, ADDRESS = "02:42:ac:1d:02:0a", "192.168.100.10"
REPLY = bytes.fromhex("0242ac1d020ab2661bb7ef2408060001080006040002b2661bb7ef24c0a8640a0242ac1d020a00000000")


def test_a_probe_claims_nothing() -> None:
    assert arp.probe_frame(MAC, ADDRESS).hex() == (
        "ffffffffffff0242ac1d020a080600010800060400010242ac1d020a00000000000000000000c0a8640a"
    )
    assert arp.claimant(arp.probe_frame(MAC, ADDRESS), ADDRESS) is None


def test_an_answer_names_its_claimant() -> None:
    assert arp.claimant(REPLY + bytes(18), ADDRESS) == "b2:66:1b:b7:ef:24"
    assert arp.claimant(REPLY, "192.168.100.11") is None


@given(st.binary(max_size=64))
def test_any_frame_is_read_without_an_error(frame: bytes) -> None:
    arp.claimant(frame, ADDRESS)


def test_an_infiniband_address_is_none_of_ethernet() -> None:
    with pytest.raises(ValueError, match="no Ethernet address"):
        arp.probe_frame("80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:6f:01", ADDRESS)
