# SPDX-License-Identifier: Apache-2.0
"""The node is no desktop any more, in its files and in its running kernel."""

from __future__ import annotations

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0", "ssh://spark1"]


def test_the_kernel_hardly_swaps(host: Host) -> None:
    assert host.sysctl("vm.swappiness") == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/etc/sysctl.d/90-firstlight.conf", "vm.swappiness = 1"),
        ("/etc/security/limits.d/90-firstlight.conf", "* hard memlock unlimited"),
        ("/etc/security/limits.d/90-firstlight.conf", "* soft memlock unlimited"),
    ],
)
def test_it_stays_so_after_a_boot(host: Host, path: str, line: str) -> None:
    found = host.file(path)
    assert (found.user, found.group, found.mode) == ("root", "root", 0o644)
    assert line in found.content_string.splitlines()


def test_there_is_no_graphical_login(host: Host) -> None:
    assert host.check_output("systemctl get-default") == "multi-user.target"
    assert not host.service("gdm").is_running
    assert not host.service("gdm").is_enabled
