# SPDX-License-Identifier: Apache-2.0
"""Nothing of the firewall is left, and Docker's rules are."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ssh://spark0", "ssh://spark1"]


def test_no_table_and_no_unit_is_left(host: Host) -> None:
    assert "firstlight" not in host.check_output("nft list tables")
    assert not host.file("/etc/systemd/system/firstlight-firewall.service").exists
    assert not host.file("/etc/firstlight/firewall.nft").exists


def test_docker_still_has_its_rules(host: Host) -> None:
    assert "DOCKER" in host.check_output("nft list table ip filter")
