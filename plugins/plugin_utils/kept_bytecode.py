# SPDX-License-Identifier: Apache-2.0
"""Cache bytecode of this collection: Ansible's own finder compiles every module again in each process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

PLUGINS = "ansible_collections.firstlight.cluster.plugins"


class KeptBytecode(MetaPathFinder):
    """Finds this collection's modules with Python's own loaders, which cache bytecode."""

    def __init__(self) -> None:
        self.directories: dict[str, FileFinder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith(f"{PLUGINS}."):
            return None
        for directory in path:
            if directory not in self.directories:
                self.directories[directory] = FileFinder(directory, (SourceFileLoader, SOURCE_SUFFIXES))
            spec = self.directories[directory].find_spec(fullname)
            if spec is not None and spec.loader is not None:  # leave packages without an __init__.py to Ansible
                return spec
        return None


def keep_bytecode() -> None:
    """Install the finder in this process and those forked from it."""
    if not any(isinstance(finder, KeptBytecode) for finder in sys.meta_path):
        sys.meta_path.insert(0, KeptBytecode())
