# SPDX-License-Identifier: Apache-2.0
"""A disk that is full from the n-th write on, for code that has to leave nothing half done."""

from __future__ import annotations

import builtins
import errno
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WRITES = "wax+"


class FullDisk:
    """Everything below `root` that needs room: new files and directories, their bytes on disk, and new names.

    `points` counts how often room was asked for; from number `full_at` on there is none, until it is -1 again, or until
    one write has failed where that is not `lasting`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.root = str(root)
        self.points = 0
        self.full_at = -1
        self.lasting = True
        monkeypatch.setattr(builtins, "open", self._open(builtins.open))
        monkeypatch.setattr(os, "mkdir", self._named(os.mkdir))
        monkeypatch.setattr(os, "replace", self._named(os.replace))
        monkeypatch.setattr(os, "rename", self._named(os.rename))
        monkeypatch.setattr(tempfile, "mkstemp", self._scratch(tempfile.mkstemp))
        monkeypatch.setattr(os, "fsync", self._sync)

    def take(self, path: str = "") -> None:
        """Ask for room."""
        self.points += 1
        if 0 <= self.full_at < self.points:
            self.full_at = self.full_at if self.lasting else -1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path or None)

    def _open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            if not isinstance(file, int) and set(mode) & set(WRITES):
                self._name(str(file))
            return real(file, mode, *rest, **named)

        return opened

    def _named(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def named(path: Any, *rest: Any, **more: Any) -> Any:
            # The last path is the new name.
            self._name(str([path, *(one for one in rest if isinstance(one, str))][-1]))
            return real(path, *rest, **more)

        return named

    def _name(self, path: str) -> None:
        """A name that is there already needs no room."""
        if path.startswith(self.root) and not os.path.lexists(path):
            self.take(path)

    def _scratch(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def scratch(*words: Any, **named: Any) -> Any:
            if str(named.get("dir")).startswith(self.root):
                self.take(str(named["dir"]))
            return real(*words, **named)

        return scratch

    def _sync(self, descriptor: int) -> None:
        """Only here a file system may find out that there is no room for what was written; names are there before."""
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode) and os.readlink(f"/proc/self/fd/{descriptor}").startswith(
            self.root
        ):
            self.take()
