# SPDX-License-Identifier: Apache-2.0
"""Who may read, and which settings the program refuses."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.roles.monitoring.program.settings import is_allowed, parse_settings

HOSTS = frozenset({"10.0.0.5", "fd00::5"})
GOOD: dict[str, Any] = {"version": 1, "node": "a", "listen": "10.0.0.1", "port": 9410, "hosts": ["10.0.0.5"]}


@pytest.mark.parametrize(
    "peer", ["10.0.0.5", "::ffff:10.0.0.5", "fd00::5", "fd00:0::5", "127.0.0.1", "::1", "127.8.8.8"]
)
def test_named_hosts_and_the_node_itself_may_read(peer: str) -> None:
    assert is_allowed(peer, HOSTS)


@pytest.mark.parametrize("peer", ["10.0.0.6", "::ffff:10.0.0.6", "fe80::1%eth0", "", "10.0.0.5.example", "0.0.0.0"])
def test_nobody_else_may(peer: str) -> None:
    assert not is_allowed(peer, HOSTS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version 1"),
        ({"hosts": ["monitor.example"]}, "expected an IP address"),
        ({"listen": "eth0"}, "expected an IP address"),
        ({"port": 0}, "from 1 to 65535"),
        ({"port": True}, "from 1 to 65535"),
        ({"hsots": []}, "unknown keys hsots"),
        ({"certificates": ["a.pem"]}, "absolute path"),
        ({"firewall_tables": ["inet a b"]}, "FAMILY NAME"),
        ({"firewall_tables": ["inet -f"]}, "FAMILY NAME"),
        ({"targets": {"ttft_p95_ms": "800"}}, "expected numbers by name"),
        ({"targets": {"ttft_p95_ms": True}}, "expected numbers by name"),
        ({"targets": {"ttft_p95_ms": float("nan")}}, "expected numbers by name"),
        ({"targets": [800]}, "expected numbers by name"),
        ({"sources": [{"name": "x", "url": "file:///etc/shadow", "allowed": ["x"]}]}, "http://ADDRESS"),
        ({"sources": [{"name": "x", "url": "http://name:1/metrics", "allowed": ["x"]}]}, "http://ADDRESS"),
        ({"sources": [{"name": "x", "url": "http://127.0.0.1:1/metrics", "allowed": [""]}]}, "allows nothing"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], words: str) -> None:
    assert parse_settings(GOOD).readers == {"10.0.0.5", "10.0.0.1"}
    assert parse_settings({**GOOD, "targets": {"ttft_p95_ms": 800}}).targets == {"ttft_p95_ms": 800}
    with pytest.raises(ValueError, match=words):
        parse_settings({**GOOD, **change})
