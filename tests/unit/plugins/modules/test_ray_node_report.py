# SPDX-License-Identifier: Apache-2.0
"""ray_node_report: what a node sees of its way to the head, on loopback."""

from __future__ import annotations

import socket

from ansible_collections.firstlight.cluster.plugins.modules.ray_node_report import way_to_head


def test_a_head_that_takes_connections_is_no_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        way = way_to_head("127.0.0.1", "127.0.0.1", head.getsockname()[1])
    assert way.problem is None


def test_a_head_that_refuses_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
    assert "cannot reach the head at 127.0.0.1" in (way_to_head("127.0.0.1", "127.0.0.1", port).problem or "")


def test_an_address_that_is_not_on_the_node_is_told() -> None:
    # TEST-NET-1: nobody has it, and nothing is sent before it is bound.
    way = way_to_head("192.0.2.1", "127.0.0.1", 6379)
    assert way.here is False
    assert "192.0.2.1 is on none of its ports" in (way.problem or "")
