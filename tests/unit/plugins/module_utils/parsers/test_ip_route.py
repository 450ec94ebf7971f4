# SPDX-License-Identifier: Apache-2.0
"""`ip -j -force -batch -` with several questions, as iproute2 6.1 answers them."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.ip_route import batch, parse_routes
from hypothesis import given
from hypothesis import strategies as st

ANSWERS = (
    '[{"dst":"192.168.100.11","from":"192.168.100.10","dev":"enp1s0f1np1","flags":[],"uid":0,"cache":[]}]\n'
    '[{"dst":"192.168.100.12","from":"192.168.100.10","gateway":"172.29.2.1","dev":"eth0","flags":[],"uid":0,"cache":[]}]\n'
    '[{"type":"local","dst":"192.168.100.10","from":"192.168.100.10","dev":"lo","table":"local","cache":["local"]}]\n'
)
COMPLAINTS = "RTNETLINK answers: Network is unreachable\nCommand failed -:3\n"


def test_questions() -> None:
    assert batch([("192.168.100.10", "192.168.100.11")]) == "route get 192.168.100.11 from 192.168.100.10\n"


def test_answers_are_found_by_source_and_destination() -> None:
    found, complaints = parse_routes(ANSWERS, COMPLAINTS)
    assert found[("192.168.100.10", "192.168.100.11")] == {"dev": "enp1s0f1np1", "gateway": None, "type": None}
    assert found[("192.168.100.10", "192.168.100.12")]["gateway"] == "172.29.2.1"
    assert found[("192.168.100.10", "192.168.100.10")]["type"] == "local"
    assert complaints == {2: "Network is unreachable"}


@given(st.text(), st.text())
def test_any_text_is_read_without_an_error(stdout: str, stderr: str) -> None:
    parse_routes(stdout, stderr)
