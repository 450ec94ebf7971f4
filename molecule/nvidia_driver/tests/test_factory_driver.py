# SPDX-License-Identifier: Apache-2.0
"""A node that came with a driver keeps it, held with all its packages although only one of them was named."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ssh://spark0"]
FACTORY = "580.126.09-0ubuntu0.24.04.2"


def test_every_package_of_the_driver_is_held_as_it_was(host: Host) -> None:
    listed = host.check_output("dpkg-query -W -f '${Package} ${Version} ${db:Status-Want}\\n' 'nvidia-*' 'libnvidia-*'")
    rows = [line.split() for line in listed.splitlines()]
    found = {row[0]: row[1:] for row in rows if len(row) == 3 and "container" not in row[0]}
    assert len(found) == 15
    assert all(row == [FACTORY, "hold"] for row in found.values())


def test_it_got_no_source_and_no_pins(host: Host) -> None:
    assert not host.file("/etc/apt/sources.list.d/firstlight-nvidia.sources").exists
    assert not host.file("/etc/apt/preferences.d/00-firstlight-nvidia").exists
    assert "nvidia-utils-580" in host.file("/etc/apt/apt.conf.d/52firstlight-nvidia").content_string
