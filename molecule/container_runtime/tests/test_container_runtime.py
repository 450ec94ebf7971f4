# SPDX-License-Identifier: Apache-2.0
"""A node that had no Docker runs it, at the pinned versions and with the settings asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from testinfra.host import Host

testinfra_hosts = ["ssh://bare0"]


@pytest.fixture(scope="module")
def pins(request: pytest.FixtureRequest) -> dict[str, str]:
    lab = Path(os.fspath(request.config.getoption("ssh_config"))).parent
    stack = yaml.safe_load((lab / "catalog" / "stacks" / "lab.yml").read_text())
    return dict(stack["packages"])


def test_packages_have_the_pinned_versions(host: Host, pins: dict[str, str]) -> None:
    assert pins
    for name, version in pins.items():
        assert host.package(name).version == version


def test_the_service_runs_and_comes_back_after_a_boot(host: Host) -> None:
    assert host.service("docker").is_running
    assert host.service("docker").is_enabled


def test_the_settings_are_in_the_file(host: Host) -> None:
    settings = host.file("/etc/docker/daemon.json")
    assert settings.mode == 0o644
    assert json.loads(settings.content_string) == {
        "live-restore": True,
        "log-driver": "local",
        "log-opts": {"max-file": "3", "max-size": "50m"},
    }


def test_the_daemon_uses_the_settings(host: Host) -> None:
    told = host.check_output("docker info --format '{{.LiveRestoreEnabled}} {{.LoggingDriver}}'")
    assert told == "true local"
