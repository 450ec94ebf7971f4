# SPDX-License-Identifier: Apache-2.0
"""What preflight let through is really so, by other means than its own."""

from __future__ import annotations

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0", "ssh://spark1"]


@pytest.mark.parametrize("port", ["enp1s0f1np1", "enP2p1s0f1np1"])
def test_the_ports_exist(host: Host, port: str) -> None:
    assert host.file(f"/sys/class/net/{port}").exists


def test_the_gpu_is_listed(host: Host) -> None:
    listed = host.check_output("nvidia-smi -L").splitlines()
    assert len(listed) == 1
    assert "NVIDIA GB10" in listed[0]


def test_the_distribution(host: Host) -> None:
    assert host.system_info.distribution == "debian"
    assert host.system_info.release.startswith("12")
