# SPDX-License-Identifier: Apache-2.0
"""Runs that are cut off in the middle, as by a closed laptop, and the one after them that ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from tests.serving.lab import Serving

# Those in which most is half done. Not Weights: what a download that was cut off leaves is where the scenario of that
# role begins. The others are one module, which writes each thing whole.
PHASES = ("Container runtime", "Fabric", "Image", "Serve")
INTO_IT = 2.0
"""Seconds of a phase that pass before the run is killed."""


def interrupt_at(serving: Serving, phase: str, words: tuple[str, ...], log: Path) -> str:
    """Start site.yml, and kill it once this phase has begun; what it said until then."""
    with log.open("w") as output:
        process = subprocess.Popen(
            [*serving.words("site.yml"), *words],
            cwd=serving.checkout,
            env=serving.env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 600
            while f"==> {phase}" not in log.read_text():
                assert process.poll() is None, f"ended before {phase}:\n{log.read_text()[-6000:]}"
                assert time.monotonic() < deadline, f"{phase} was never reached:\n{log.read_text()[-6000:]}"
                time.sleep(0.2)
            time.sleep(INTO_IT)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return log.read_text()


def end_what_goes_on(serving: Serving) -> None:
    """Ansible's workers lead sessions of their own and outlive a killed parent. The lab is in their environment."""
    mark = f"FIRSTLIGHT_LAB={serving.name}".encode()
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"ansible-playbook" in (directory / "cmdline").read_bytes() and mark in (
                (directory / "environ").read_bytes().split(b"\0")
            ):
                os.kill(int(directory.name), signal.SIGKILL)
