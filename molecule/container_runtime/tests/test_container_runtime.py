# SPDX-License-Identifier: Apache-2.0
"""A node that had no Docker runs it, at the pinned versions and with the settings asked for."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://bare0"]
TOOLKIT = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)


@pytest.mark.parametrize("name", TOOLKIT)
def test_the_toolkit_is_pinned_as_a_whole_although_a_newer_one_is_on_offer(host: Host, name: str) -> None:
    listed = host.check_output(f"dpkg-query -W -f '${{Version}} ${{db:Status-Want}}' {name}")
    assert listed == "1.18.1-1 hold"
    assert "1.18.2-1" in host.check_output(f"apt-cache madison {name}")


@pytest.mark.parametrize("name", TOOLKIT)
def test_what_was_installed_is_kept(host: Host, name: str) -> None:
    names = host.check_output("ls /var/lib/firstlight/debs").splitlines()
    assert any(one.startswith(f"{name}_1.18.1-1_") for one in names)


def test_docker_is_held_and_unattended_upgrades_keep_off(host: Host) -> None:
    assert "docker.io" in host.check_output("apt-mark showhold").split()
    told = host.run("unattended-upgrade --dry-run --debug")
    assert told.rc == 0
    (excluded,) = [line for line in told.stdout.splitlines() if line.startswith("Initial blacklist")]
    assert "^docker\\.io$" in excluded.split()


def test_the_service_runs_and_comes_back_after_a_boot(host: Host) -> None:
    assert host.service("docker").is_running
    assert host.service("docker").is_enabled


def test_our_settings_are_in_the_file_and_those_of_others_stay(host: Host) -> None:
    settings = host.file("/etc/docker/daemon.json")
    assert settings.mode == 0o644
    assert json.loads(settings.content_string) == {
        "debug": True,
        "live-restore": True,
        "log-driver": "local",
        "log-opts": {"max-file": "3", "max-size": "50m"},
        "runtimes": {"other": {"path": "runc"}},
    }


def test_the_daemon_uses_the_settings(host: Host) -> None:
    told = host.check_output("docker info --format '{{.LiveRestoreEnabled}} {{.LoggingDriver}} {{.Debug}}'")
    assert told == "true local true"
