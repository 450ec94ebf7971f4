# SPDX-License-Identifier: Apache-2.0
"""Running programs, progress messages, and the base exception of the lab."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from firstlight.errors import FirstlightError


class LabError(FirstlightError):
    """An error explained to the user: what was found, what was expected, what to do."""


class Narrator:
    """Prints each step with the seconds since the start, so that a long step is never silent."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self, message: str) -> None:
        elapsed = time.monotonic() - self._start
        print(f"[{elapsed:6.1f} s] {message}", file=sys.stderr, flush=True)


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = 600,
    check: bool = True,
    stdin: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to completion and return its output. Raises LabError, which quotes the program's output."""
    merged = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
    try:
        done = subprocess.run(
            list(argv),
            env=merged,
            timeout=timeout,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise LabError(f"The program {argv[0]!r} is not installed. Install it and run the command again.") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(argv[:4])} ... did not finish within {timeout:.0f} s.") from None
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise LabError(f"{' '.join(argv[:6])} ... failed with status {done.returncode}:\n{said}")
    return done
