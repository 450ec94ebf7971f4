# SPDX-License-Identifier: Apache-2.0
"""Both rails carry 9000-byte packets, and lead nowhere else."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0", "ssh://spark1"]

RAILS = [("enp1s0f1np1", "192.168.100"), ("enP2p1s0f1np1", "192.168.101")]
LAST = {"spark0": "10", "spark1": "11"}


@pytest.fixture
def name(host: Host) -> str:
    return str(host.check_output("hostname"))


@pytest.mark.parametrize(("port", "subnet"), RAILS)
def test_the_port_has_its_mtu_and_address(host: Host, name: str, port: str, subnet: str) -> None:
    assert host.file(f"/sys/class/net/{port}/mtu").content_string.strip() == "9000"
    assert f"{subnet}.{LAST[name]}" in host.interface(port).addresses


@pytest.mark.parametrize(("port", "subnet"), RAILS)
def test_the_other_node_answers_full_size_packets(host: Host, name: str, port: str, subnet: str) -> None:
    other = next(last for node, last in LAST.items() if node != name)
    host.run_expect([0], f"ping -M do -s 8972 -c 2 -W 2 -I {port} {subnet}.{other}")


def test_the_file_is_for_root_only(host: Host) -> None:
    found = host.file("/etc/netplan/40-cx7.yaml")
    assert (found.user, found.group, found.mode) == ("root", "root", 0o600)
    assert not host.check_output("find /etc/netplan -name '.firstlight-*'")


def test_no_route_leads_out_through_the_fabric(host: Host) -> None:
    assert "enp1s0f1np1" not in host.check_output("ip route show default")
    assert "via" not in host.check_output("ip route show dev enp1s0f1np1")


def test_the_connectivity_test_is_on_record(host: Host, name: str) -> None:
    report = host.file("/var/lib/firstlight/fabric.connectivity").content_string
    other = next(node for node in LAST if node != name)
    assert report.count(f'"host": "{other}"') == len(RAILS)


def test_so_is_the_firmware_that_it_was_made_with(host: Host) -> None:
    record = json.loads(host.file("/var/lib/firstlight/fabric.firmware").content_string)
    assert record["at"].endswith("Z")
    # A container has its machine's BIOS, and ports without firmware.
    bios = host.run("cat /sys/class/dmi/id/bios_version").stdout.strip()
    assert bios in record["versions"].get("bios", "")
    assert not [name for name in record["versions"] if name.startswith("nic.")]
