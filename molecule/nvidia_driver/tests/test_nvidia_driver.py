# SPDX-License-Identifier: Apache-2.0
"""A node that had no driver runs the pinned one, and keeps it although a newer one is on offer."""

from __future__ import annotations

import re

from testinfra.host import Host

PINNED = "580.95.05-0ubuntu0.24.04.2"
NEWER = "580.126.09-0ubuntu0.24.04.2"

testinfra_hosts = ["ssh://bare0"]


def driver_packages(host: Host) -> dict[str, str]:
    listed = host.check_output("dpkg-query -W -f '${Package} ${Version} ${db:Status-Want}\\n' 'nvidia-*' 'libnvidia-*'")
    rows = [line.split() for line in listed.splitlines()]
    return {row[0]: f"{row[1]} {row[2]}" for row in rows if len(row) == 3 and "container" not in row[0]}


def test_every_package_is_pinned_and_held_although_a_newer_one_is_on_offer(host: Host) -> None:
    found = driver_packages(host)
    # The firmware's package is named after its version: that of the other driver stays and harms nobody.
    assert found.pop("nvidia-firmware-580-580.126.09", "").startswith(NEWER)
    assert len(found) == 15
    assert set(found.values()) == {f"{PINNED} hold"}
    assert NEWER in host.check_output("apt-cache madison nvidia-utils-580")


def test_the_pinned_driver_is_loaded_and_answers(host: Host) -> None:
    assert host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader") == "580.95.05"
    assert "Open Kernel Module" in host.file("/proc/driver/nvidia/version").content_string
    assert host.service("nvidia-persistenced").is_running


def test_without_an_nvswitch_there_is_no_fabric_manager(host: Host) -> None:
    assert not host.package("nvidia-fabricmanager-580").is_installed


def test_the_source_names_its_key_and_nothing_else_of_it_is_a_candidate(host: Host) -> None:
    source = host.file("/etc/apt/sources.list.d/firstlight-nvidia.sources")
    assert "Signed-By: /etc/apt/keyrings/firstlight-nvidia.asc" in source.content_string
    assert source.mode == 0o644
    policy = host.check_output("apt-cache policy cuda-toolkit-13-0")
    assert re.search(r" -1 http://nvidia\.lab\.example", policy)
    pinned = host.check_output("apt-cache policy nvidia-utils-580")
    assert f"Candidate: {PINNED}" in pinned
    assert re.search(rf"\*\*\* {re.escape(PINNED)} 1001", pinned)


def test_unattended_upgrades_keep_off(host: Host) -> None:
    dumped = host.check_output("apt-config dump Unattended-Upgrade::Package-Blacklist")
    assert '"^nvidia-driver-580-open$"' in dumped
    assert r'"^nvidia-firmware-580-580\.95\.05$"' in dumped


def test_nouveau_is_off(host: Host) -> None:
    assert "blacklist nouveau" in host.file("/etc/modprobe.d/firstlight-nouveau.conf").content_string
