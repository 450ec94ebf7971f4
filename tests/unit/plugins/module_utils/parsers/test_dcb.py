# SPDX-License-Identifier: Apache-2.0
"""What dcb prints, in both of its ways."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dcb import (
    parse_dcb_app,
    parse_dcb_dcbx,
    parse_dcb_pfc,
)
from hypothesis import given
from hypothesis import strategies as st

ON_3 = (False, False, False, True, False, False, False, False)


@pytest.mark.parametrize(
    "text",
    [
        "pfc-cap 8 macsec-bypass off delay 0 \nprio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off \n",
        '{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,true,false,false,false,false]}',
        '{"pfc_cap":8,"prio_pfc":["off","off","off","on","off","off","off","off"]}',
    ],
)
def test_pfc(text: str) -> None:
    assert parse_dcb_pfc(text) == ON_3


@pytest.mark.parametrize(
    "text", ["", "{}", "Attribute read: Operation not supported", "prio-pfc 0:off", '{"prio_pfc":[]}']
)
def test_pfc_that_is_not_told(text: str) -> None:
    assert parse_dcb_pfc(text) is None


@pytest.mark.parametrize(
    ("text", "priorities"),
    [
        ("dscp-prio 0:0 26:3 48:6 \n", {0: 0, 26: 3, 48: 6}),
        ("default-prio 0 \ndscp-prio CS3:3 AF31:3 EF:5 \npcp-prio 1nd:1\n", {24: 3, 26: 3, 46: 5}),
        ('{"dscp_prio":[[26,3," "],[48,6," "]]}', {26: 3, 48: 6}),
        ('{"dscp_prio":[[26,3],["AF41",4]]}', {26: 3, 34: 4}),
        ('{"dscp_prio":[[26],"x",[99,1],[1,true]]}', {}),
        ("", {}),
        ("dscp-prio 99:1 nonsense:2 3:x", {}),
    ],
)
def test_app(text: str, priorities: dict[int, int]) -> None:
    assert parse_dcb_app(text) == priorities


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("host ieee \n", {"host", "ieee"}),
        ('{"lld_managed":true,"ieee":true}', {"lld-managed", "ieee"}),
        ("", set()),
    ],
)
def test_dcbx(text: str, words: set[str]) -> None:
    assert parse_dcb_dcbx(text) == words


@given(st.text())
def test_any_text(text: str) -> None:
    for lead in ("", "prio-pfc ", "dscp-prio ", '{"dscp_prio":'):
        parse_dcb_pfc(lead + text)
        parse_dcb_app(lead + text)
        parse_dcb_dcbx(lead + text)


@given(st.dictionaries(st.integers(0, 63), st.integers(0, 7)))
def test_every_mapping_is_read_back(priorities: dict[int, int]) -> None:
    pairs = " ".join(f"{dscp}:{priority}" for dscp, priority in priorities.items())
    assert parse_dcb_app(f"dscp-prio {pairs}") == priorities
