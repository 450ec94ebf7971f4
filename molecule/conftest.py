# SPDX-License-Identifier: Apache-2.0
"""Lets testinfra reach the nodes of the lab that Molecule started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def lab_directory() -> Path:
    """Where the lab keeps its keys, by the same rule as the inventory."""
    cache = os.environ.get("FIRSTLIGHT_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    root = Path(cache) if cache else Path(base) / "firstlight"
    return root.expanduser().resolve() / "labs" / "molecule"


def pytest_configure(config: pytest.Config) -> None:
    """Give testinfra the lab's ssh_config; hosts are then named ssh://<node>."""
    config.option.ssh_config = str(lab_directory() / "ssh_config")
