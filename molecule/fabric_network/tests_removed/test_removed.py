# SPDX-License-Identifier: Apache-2.0
"""A host from which the fabric was removed is as it was."""

from __future__ import annotations

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0", "ssh://spark1"]


@pytest.mark.parametrize("port", ["enp1s0f1np1", "enP2p1s0f1np1"])
def test_the_port_has_neither_address_nor_jumbo_frames(host: Host, port: str) -> None:
    assert host.file(f"/sys/class/net/{port}/mtu").content_string.strip() == "1500"
    assert not host.check_output(f"ip -4 -o addr show dev {port}")


def test_nothing_is_left(host: Host) -> None:
    assert host.check_output("ls -A /etc/netplan") == "50-cloud-init.yaml"
    assert not host.check_output("find /var/lib/firstlight/netplan /etc/systemd/system -name '*netplan*' -type f")
    assert host.check_output("ls -A /var/lib/firstlight/netplan") == ""
    assert host.check_output("find /var/lib/firstlight -name 'fabric.*'") == ""


def test_the_tools_stay(host: Host) -> None:
    assert host.package("iperf3").is_installed
