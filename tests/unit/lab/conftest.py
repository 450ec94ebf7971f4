# SPDX-License-Identifier: Apache-2.0
"""A scratch root with the stand-in NVIDIA user space in it, as the packages would lay it out."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from firstlight_lab.nvidia.deb import Entry, Package
from firstlight_lab.nvidia.node.cli import main
from firstlight_lab.nvidia.node.machine import load_module
from firstlight_lab.nvidia.packages import load_packages

WANTED = frozenset(
    {
        "nvidia-utils-580",
        "libnvidia-compute-580",
        "nvidia-dkms-580-open",
        "nvidia-fabricmanager-580",
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
        "libnvidia-container-tools",
    }
)


@functools.cache
def packages() -> list[Package]:
    return [package for package in load_packages() if package.architecture == "arm64" and package.name in WANTED]


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
        code, text = self.call(*arguments)
        assert code == 0, text
        return text

    def call(self, *arguments: str) -> tuple[int, str]:
        """nvidia-smi in this process: the same code without the start of an interpreter."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = main(arguments, self.root)
        return code, out.getvalue()

    def install(self, driver: str, names: frozenset[str] = WANTED) -> None:
        for package in packages():
            if package.name in names and package.version.startswith((driver, "1.18.2")):
                for path, entry in package.entries.items():
                    self._write(path, entry)

    def boot(self) -> None:
        for name in ("nvidia-driver-loaded", "firstlight-lab/fabric-configured"):
            (self.root / "run" / name).unlink(missing_ok=True)
        load_module(self.root)

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
