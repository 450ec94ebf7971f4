# SPDX-License-Identifier: Apache-2.0
"""Rules are evaluated by the connection that must not be cut."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall import Connection, admits

FABRIC = {"interfaces": ["fab0", "fab1"], "peers": ["192.168.100.10", "192.168.100.11", "192.168.101.10"]}
ENDPOINT = {"name": "endpoint", "protocol": "tcp", "ports": [443], "from": ["10.20.0.0/16", "fd00:20::/64"]}
SETTINGS: dict[str, Any] = {"ssh_ports": ["22"], "ssh_from": [], "fabric": {}, "openings": []}


@pytest.mark.parametrize(
    ("settings", "connection", "expected"),
    [
        ({}, Connection("10.1.2.3", "10.1.2.4", 22), True),
        ({}, Connection("10.1.2.3", "10.1.2.4", 2222), False),
        ({}, Connection("127.0.0.1", "127.0.0.1", 2222), True),
        ({"ssh_ports": ["2200-2299"]}, Connection("10.1.2.3", "10.1.2.4", 2222), True),
        ({"ssh_from": ["10.0.0.0/8"]}, Connection("10.1.2.3", "10.1.2.4", 22), True),
        ({"ssh_from": ["10.0.0.0/8"]}, Connection("::ffff:10.1.2.3", "::ffff:10.1.2.4", 22), True),
        ({"ssh_from": ["10.0.0.0/8"]}, Connection("11.1.2.3", "10.1.2.4", 22), False),
        ({"ssh_from": ["10.0.0.0/8"]}, Connection("fd00::1", "fd00::2", 22), False),
        # Another way in than SSH's own counts as well: a peer on the fabric, or an opening elsewhere.
        (
            {"ssh_from": ["10.0.0.0/8"], "fabric": FABRIC},
            Connection("192.168.100.11", "192.168.100.10", 22, "fab0"),
            True,
        ),
        (
            {"ssh_from": ["10.0.0.0/8"], "fabric": FABRIC},
            Connection("192.168.100.11", "192.168.100.10", 22, "eth0"),
            False,
        ),
        ({"openings": [ENDPOINT]}, Connection("10.20.0.5", "10.20.0.6", 443), True),
        ({"openings": [{**ENDPOINT, "protocol": "udp"}]}, Connection("10.20.0.5", "10.20.0.6", 443), False),
        (
            {"openings": [ENDPOINT], "fabric": FABRIC},
            Connection("10.20.0.5", "192.168.100.10", 443, "fab0"),
            False,
        ),
    ],
)
def test_the_connection_in_use_is_evaluated(settings: dict[str, Any], connection: Connection, expected: bool) -> None:
    assert admits({**SETTINGS, **settings}, connection) is expected
