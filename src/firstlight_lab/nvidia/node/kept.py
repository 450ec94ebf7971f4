# SPDX-License-Identifier: Apache-2.0
"""Answers of `nvidia-smi` that are given again until something they are about changes.

Many nodes share a few processors, and each is asked the same a dozen times a run. Nearly all of an answer's time is
Python's own start with what the answer needs: this needs next to nothing.
"""

from __future__ import annotations

import os
import sys
from zlib import crc32

PLACE = "run/firstlight-lab/nvidia-smi"
ABOUT = (
    "etc/firstlight-lab/machine.json",
    "usr/share/firstlight-lab/nvidia/library.json",
    "usr/share/firstlight-lab/nvidia/module.json",
    "usr/lib/firstlight-lab/nvidia_stub",
    "run/nvidia-driver-loaded",
    "run/firstlight-lab/fabric-configured",
)


class Kept:
    """The place of one answer, as things are now."""

    def __init__(self, arguments: list[str], base: str) -> None:
        # The table, the log, and the field of that name say what time it is.
        self.timed = not arguments or "timestamp" in " ".join(arguments) or bool({"-q", "--query"} & set(arguments))
        self._mark = repr((arguments, os.uname().nodename, [_state(os.path.join(base, path)) for path in ABOUT]))
        self._path = os.path.join(base, PLACE, f"{crc32(self._mark.encode()):08x}")

    def text(self) -> str | None:
        """The answer, when one was kept and nothing has changed since."""
        try:
            with open(self._path, encoding="utf-8") as file:
                mark, _, text = file.read().partition("\n")
        except OSError:
            return None
        return text if mark == self._mark else None

    def keep(self, text: str) -> None:
        """For the next time; where nothing can be written, as in a container, there is none."""
        partial = f"{self._path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            with open(partial, "w", encoding="utf-8") as file:
                file.write(f"{self._mark}\n{text}")
            os.replace(partial, self._path)
        except OSError:
            pass


def _state(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def answered_again(arguments: list[str], base: str) -> bool:
    """Print the kept answer, if there is one."""
    kept = Kept(arguments, base)
    text = None if kept.timed else kept.text()
    if text is not None:
        sys.stdout.write(text)
    return text is not None
