# SPDX-License-Identifier: Apache-2.0
"""What the controller keeps for clients is its owner's alone, and is what the head has."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0"]
NAMES = ("alice", "slow", "vaulted", "leaver", "default", "include", "team")


@pytest.fixture
def directory(request: pytest.FixtureRequest) -> Path:
    return Path(str(request.config.option.ssh_config)).parent / "endpoint-client"


def test_files_are_the_owners_alone(directory: Path) -> None:
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    names = {path.name for path in (directory / "keys").iterdir()}
    assert names == {f"{name}{end}" for name in NAMES for end in ("", ".header")}
    for path in [directory / "ca.crt", *(directory / "keys").iterdir()]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_they_are_what_the_head_has(host: Host, directory: Path) -> None:
    value = host.file("/etc/firstlight/endpoint/keys/alice").content_string
    assert (directory / "keys" / "alice").read_text() == value
    assert (directory / "keys" / "alice.header").read_text() == f"Authorization: Bearer {value}"
    assert (directory / "ca.crt").read_text() == host.file("/etc/firstlight/endpoint/ca.crt").content_string
