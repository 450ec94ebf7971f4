# SPDX-License-Identifier: Apache-2.0
"""What a network change did to the rest of a host."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.outcome import (
    lost_connectivity,
    parse_default_routes,
    port_states,
)

LINKS: dict[str, dict[str, Any]] = {
    "lo": {"addresses": ["127.0.0.1/8"]},
    "eth0": {"addresses": ["172.20.0.3/16", "2001:db8::3/64"]},
    "fab0": {"addresses": ["192.168.100.10/24"]},
    "docker0": {"addresses": ["172.17.0.1/16"]},
}
ROUTE = "via 172.20.0.1 dev eth0"


def test_nothing_lost() -> None:
    assert lost_connectivity(["fab0"], LINKS, LINKS, {ROUTE}, {ROUTE}) == []


def test_the_management_address_and_route() -> None:
    after = {**LINKS, "eth0": {"addresses": []}}
    assert lost_connectivity(["fab0"], LINKS, after, {ROUTE}, set()) == [
        "port eth0 lost its address 172.20.0.3/16",
        f"the default route {ROUTE} is gone",
    ]


def test_our_own_ports_and_the_engines_links_may_change() -> None:
    after = {"lo": LINKS["lo"], "eth0": LINKS["eth0"], "fab0": {"addresses": []}}
    assert lost_connectivity(["fab0"], LINKS, after, {ROUTE, "via 192.168.100.1 dev fab0"}, {ROUTE}) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"dst":"default","gateway":"172.20.0.1","dev":"eth0","flags":[]}]', {ROUTE}),
        ('[{"dst":"default","dev":"ppp0"}]', {"via link dev ppp0"}),
        ("[ ]", set()),
        ("", set()),
        ("Error: no", set()),
        ('{"dev":"eth0"}', set()),
    ],
)
def test_default_routes(text: str, expected: set[str]) -> None:
    assert parse_default_routes(text) == expected


def test_absent_ports_are_told_as_absent() -> None:
    assert port_states(["fab0", "fab1"], LINKS) == {"fab0": LINKS["fab0"], "fab1": {"exists": False}}
