# SPDX-License-Identifier: Apache-2.0
"""Lets testinfra reach the nodes of the lab that Molecule started, over one connection a node."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

CONNECTIONS = pytest.StashKey[Path]()


def lab_directory() -> Path:
    """Where the lab keeps its keys, by the same rule as the inventory."""
    cache = os.environ.get("FIRSTLIGHT_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    root = Path(cache) if cache else Path(base) / "firstlight"
    return root.expanduser().resolve() / "labs" / os.environ.get("MOLECULE_LAB", "molecule")


def pytest_configure(config: pytest.Config) -> None:
    """Give testinfra the lab's ssh_config; hosts are then named ssh://<node>.

    testinfra asks for a shared connection but does not say where, so that every command would log in anew.
    """
    lab = lab_directory()
    config.stash[CONNECTIONS] = connections = Path(tempfile.mkdtemp(prefix="ssh-"))  # short: a socket's path is
    shared = lab / "ssh_config_shared"
    shared.write_text(f"Include {lab}/ssh_config\nHost *\n  ControlPath {connections}/%C\n")
    config.option.ssh_config = str(shared)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the connections."""
    connections = config.stash[CONNECTIONS]
    for socket in connections.iterdir():
        subprocess.run(["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "any"], capture_output=True, check=False)
    shutil.rmtree(connections, ignore_errors=True)  # ssh takes its sockets away by itself, at the same time
