# SPDX-License-Identifier: Apache-2.0
"""Nodes let in their peers, SSH and what was opened, and nothing else."""

from __future__ import annotations

import json

import pytest
import testinfra
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0"]

FABRIC = "192.168.100.10"
PEER, STRANGER = "192.168.100.11", "192.168.100.99"
CONNECT = (
    "import socket, sys; host, port, source = sys.argv[1:]; "
    "socket.create_connection((host, int(port)), 3, (source, 0) if source else None).close()"
)


@pytest.fixture(scope="module")
def elsewhere(pytestconfig: pytest.Config) -> dict[str, Host]:
    """Nodes that come from outside; bare0 belongs to no cluster."""
    config = pytestconfig.getoption("ssh_config")
    return {name: testinfra.get_host(f"ssh://{name}", ssh_config=config) for name in ("spark1", "bare0")}


@pytest.fixture(scope="module")
def management(host: Host) -> str:
    listed = json.loads(host.check_output("ip -j -4 addr show eth0"))
    return str(listed[0]["addr_info"][0]["local"])


def answer(node: Host, address: str, port: int, source: str = "") -> str:
    """How a connection ended: "open", or what the error was."""
    ran = node.run("python3 -c %s %s %s %s", CONNECT, address, str(port), source)
    return "open" if ran.rc == 0 else str(ran.stderr.strip().splitlines()[-1])


@pytest.mark.parametrize("port", [6379, 8000, 443, 9180, 8080, 22])
def test_a_peer_reaches_everything_over_the_fabric(elsewhere: dict[str, Host], port: int) -> None:
    assert answer(elsewhere["spark1"], FABRIC, port, PEER) == "open"


@pytest.mark.parametrize("port", [6379, 8000, 443, 9180, 8080, 8443])
def test_nobody_else_reaches_anything_over_the_fabric(elsewhere: dict[str, Host], port: int) -> None:
    assert "timed out" in answer(elsewhere["spark1"], FABRIC, port, STRANGER)


@pytest.mark.parametrize(
    ("node", "port", "opened"),
    [
        ("bare0", 22, True),
        ("bare0", 443, True),
        ("bare0", 8443, True),
        ("bare0", 9180, False),
        ("bare0", 6379, False),
        ("bare0", 8000, False),
        ("bare0", 8080, False),
        ("spark1", 9180, True),
        ("spark1", 6379, False),
        ("spark1", 8000, False),
        ("spark1", 8080, False),
    ],
)
def test_the_management_side_is_closed_but_for_openings(
    elsewhere: dict[str, Host], management: str, node: str, port: int, opened: bool
) -> None:
    told = answer(elsewhere[node], management, port)
    assert told == "open" if opened else "timed out" in told


def test_a_peer_is_one_on_the_fabric_only(host: Host) -> None:
    """The fabric's address is not reached over the management network, whatever address a packet claims to be from."""
    rules = host.check_output("nft list chain inet firstlight input")
    assert [line for line in rules.splitlines() if "192.168.100" in line] == []


def test_the_host_reaches_itself_and_the_outside(host: Host, elsewhere: dict[str, Host], management: str) -> None:
    for port in (6379, 8000, 8080):
        assert answer(host, "127.0.0.1", port) == "open"
        assert answer(host, management, port) == "open"
    outside = json.loads(elsewhere["bare0"].check_output("ip -j -4 addr show eth0"))[0]["addr_info"][0]["local"]
    assert answer(host, outside, 22) == "open"


def test_a_container_reaches_the_outside(host: Host, elsewhere: dict[str, Host]) -> None:
    outside = json.loads(elsewhere["bare0"].check_output("ip -j -4 addr show eth0"))[0]["addr_info"][0]["local"]
    ran = host.run("docker exec listener /usr/bin/python3 -c %s %s 22 ''", CONNECT, outside)
    assert ran.rc == 0, ran.stderr


def test_a_ping_is_answered_but_not_on_the_fabric(elsewhere: dict[str, Host], management: str) -> None:
    assert elsewhere["bare0"].run(f"ping -c 1 -W 2 {management}").rc == 0
    assert elsewhere["spark1"].run(f"ping -c 1 -W 2 -I {PEER} {FABRIC}").rc == 0
    assert elsewhere["spark1"].run(f"ping -c 1 -W 2 -I {STRANGER} {FABRIC}").rc == 1


@pytest.mark.parametrize("name", ["input_dropped", "fabric_dropped", "published_dropped"])
def test_what_was_dropped_is_counted(host: Host, name: str) -> None:
    listed = json.loads(host.check_output(f"nft -j list counter inet firstlight {name}"))["nftables"]
    assert next(item["counter"]["packets"] for item in listed if "counter" in item) > 0


def test_the_rules_come_back_at_boot_before_the_network(host: Host) -> None:
    assert host.service("firstlight-firewall").is_enabled
    shown = host.check_output("systemctl show firstlight-firewall --property=Before --value")
    assert "network-pre.target" in shown.split()


def test_docker_has_its_own_rules(host: Host) -> None:
    assert "DOCKER" in host.check_output("nft list table ip filter")
