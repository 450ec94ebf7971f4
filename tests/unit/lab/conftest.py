# SPDX-License-Identifier: Apache-2.0
"""A scratch root with the stand-in NVIDIA user space in it, as the packages would lay it out."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from firstlight.lab.nvidia.deb import Entry
from firstlight.lab.nvidia.packages import load_packages

WANTED = {
    "nvidia-utils-580",
    "libnvidia-compute-580",
    "nvidia-dkms-580-open",
    "nvidia-fabricmanager-580",
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
}


@dataclass
class Node:
    """A node's file tree and the programs in it."""

    root: Path

    def describe(self, profile: str, *faults: Any) -> None:
        path = self.root / "etc/firstlight-lab/machine.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"profile": profile, "faults": list(faults), "hostname": "spark0"}))

    def run(self, program: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(self.root / program.lstrip("/")), *arguments]
        environment = {**os.environ, "FIRSTLIGHT_LAB_ROOT": str(self.root)}
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=60, env=environment
        )

    def smi(self, *arguments: str) -> str:
        done = self.run("/usr/bin/nvidia-smi", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self, driver: str, only: Callable[[str], bool] = lambda name: True) -> None:
        for package in load_packages():
            right = package.version.startswith((driver, "1.18.2")) and package.architecture == "arm64"
            if right and package.name in WANTED and only(package.name):
                for path, entry in package.entries.items():
                    self._write(path, entry)

    def boot(self) -> None:
        for name in ("nvidia-driver-loaded", "firstlight-lab/fabric-configured"):
            (self.root / "run" / name).unlink(missing_ok=True)
        assert self.run("/usr/lib/firstlight-lab/nvidia-load").returncode == 0

    def _write(self, path: str, entry: Entry) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not entry.link:
            target.write_bytes(entry.data)
            target.chmod(entry.mode)


@pytest.fixture
def bare_node(tmp_path: Path) -> Node:
    (tmp_path / "run").mkdir()
    return Node(tmp_path)


@pytest.fixture
def node(bare_node: Node) -> Node:
    bare_node.install("580.95.05")
    bare_node.boot()
    return bare_node
