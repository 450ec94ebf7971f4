# SPDX-License-Identifier: Apache-2.0
"""Nodes that had no driver have the pinned one, after they had others, and keep it although newer ones are on offer."""

from __future__ import annotations

import re

import pytest
from testinfra.host import Host

PINNED = "580.95.05-0ubuntu0.24.04.2"
FABRIC_MANAGER = "580.95.05-0ubuntu0.24.04.1"
NEWER = "580.126.09-0ubuntu0.24.04.2"
PREFERENCES = "/etc/apt/preferences.d/00-firstlight-nvidia"

testinfra_hosts = ["ssh://bare0", "ssh://bare1"]


@pytest.fixture
def with_nvswitch(host: Host) -> bool:
    """Whether this is the node with NVSwitches."""
    return bool(host.check_output("hostname") == "bare1")


def is_of_the_driver(name: str) -> bool:
    """Whether a package belongs to this role; the container runtime's role holds and excludes its own."""
    return "nvidia" in name and "container" not in name


def driver_packages(host: Host) -> dict[str, str]:
    listed = host.check_output("dpkg-query -W -f '${Package} ${Version} ${db:Status-Want}\\n' 'nvidia-*' 'libnvidia-*'")
    rows = [line.split() for line in listed.splitlines()]
    return {row[0]: f"{row[1]} {row[2]}" for row in rows if len(row) == 3 and is_of_the_driver(row[0])}


def test_the_set_is_there_held_and_nothing_is_left_of_the_others(host: Host, with_nvswitch: bool) -> None:
    found = {name: words for name, words in driver_packages(host).items() if not words.endswith("deinstall")}
    manager = found.pop("nvidia-fabricmanager-580", None)
    assert manager == (f"{FABRIC_MANAGER} hold" if with_nvswitch else None)
    assert len(found) == 15
    assert set(found.values()) == {f"{PINNED} hold"}
    held = filter(is_of_the_driver, host.check_output("apt-mark showhold").split())
    assert sorted(held) == sorted([*found, *(["nvidia-fabricmanager-580"] if with_nvswitch else [])])
    assert NEWER in host.check_output("apt-cache madison nvidia-utils-580")


def test_pins_and_exclusions_are_of_this_set_alone(host: Host, with_nvswitch: bool) -> None:
    pins = re.findall(r"^Package: (\S+)$", host.file(PREFERENCES).content_string, re.MULTILINE)
    assert len(pins) == 15 + 1 + with_nvswitch
    assert pins[-1] == "*"
    dumped = host.check_output("apt-config dump Unattended-Upgrade::Package-Blacklist")
    excluded = re.findall(r'::Package-Blacklist:: "(.+)";', dumped)
    assert len(list(filter(is_of_the_driver, excluded))) == 15 + with_nvswitch
    assert r'"^nvidia-firmware-580-580\.95\.05$"' in dumped
    assert re.search(rf"\*\*\* {re.escape(PINNED)} 1001", host.check_output("apt-cache policy nvidia-utils-580"))


def test_an_upgrade_of_everything_moves_nothing(host: Host) -> None:
    simulated = host.check_output("apt-get --simulate dist-upgrade")
    assert not re.search(r"^(Inst|Remv) \S*nvidia", simulated, re.MULTILINE)


def test_what_was_installed_is_kept(host: Host) -> None:
    names = host.check_output("ls /var/lib/firstlight/debs").splitlines()
    assert any(name.startswith(f"nvidia-driver-580-open_{PINNED}_") for name in names)
    assert sum(PINNED in name for name in names) == 15
    assert all(name.endswith(".deb") or name == "index.json" for name in names)


def test_the_driver_that_the_last_boot_loaded(host: Host, with_nvswitch: bool) -> None:
    loaded = host.file("/proc/driver/nvidia/version").content_string
    assert "Open Kernel Module" in loaded
    # The one node was rebooted into the next branch, and waits for its reboot back.
    assert ("580.95.05" if with_nvswitch else "590.48.01") in loaded
    answer = host.run("nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    if with_nvswitch:
        assert answer.stdout.split() == ["580.95.05"] * 4
    else:
        assert "Driver/library version mismatch" in answer.stdout


def test_the_fabric_manager_runs_where_there_is_an_nvswitch(host: Host, with_nvswitch: bool) -> None:
    manager = host.service("nvidia-fabricmanager")
    assert manager.is_running is with_nvswitch
    if with_nvswitch:
        assert manager.is_enabled
        assert "580.95.05" in host.check_output("nv-fabricmanager --version")
        assert host.service("nvidia-persistenced").is_running


def test_the_source_names_its_key_and_nothing_else_of_it_is_a_candidate(host: Host, with_nvswitch: bool) -> None:
    source = host.file("/etc/apt/sources.list.d/firstlight-nvidia.sources")
    assert re.search(r"\nSigned-By: /etc/apt/keyrings/firstlight-[0-9A-F]{40}\.asc\n", source.content_string)
    assert source.mode == 0o644
    place = r"http://nvidia\.lab\.example" if with_nvswitch else "file:/srv/nvidia"
    assert re.search(f" -1 {place}", host.check_output("apt-cache policy cuda-toolkit-13-0"))


def test_nouveau_is_off(host: Host) -> None:
    assert "blacklist nouveau" in host.file("/etc/modprobe.d/firstlight-nouveau.conf").content_string
