# SPDX-License-Identifier: Apache-2.0
"""Run Molecule scenarios one after the other, in one lab that is started fresh and removed, however it ends."""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping

from tests.suite.events import Event, note
from tests.suite.parts import CHECKOUT

# Where it does not write to a terminal, Molecule says this of every step.
STEP = re.compile(r"\[([a-z0-9_]+) > ([a-z_]+)\] Executed: (.+)")


def environment(lab: str, directory: str, system: str) -> dict[str, str]:
    """Of a run that remembers nothing of another checkout, and shares no temporary files with a run beside it."""
    return {
        **os.environ,
        **({"FIRSTLIGHT_LAB_OS": system} if system else {}),
        "MOLECULE_LAB": lab,
        "MOLECULE_GLOB": "molecule/*/molecule.yml",
        # Molecule remembers "created" under the name of the checkout's directory: another checkout of that name, or a
        # run that was cut off, would make it skip the start of the lab.
        "MOLECULE_EPHEMERAL_DIRECTORY": directory,
        # pytest removes directories of former runs: two at a time, in one place, take them from each other and fail.
        "PYTEST_DEBUG_TEMPROOT": directory,
        "NO_COLOR": "1",
    }


def claimed(claim: socket.socket, lab: str) -> bool:
    """Claim a lab until the socket is closed: the kernel gives a name to one process, and no file stays behind."""
    try:
        claim.bind(f"\0firstlight-molecule-{lab}")
    except OSError:
        return False
    return True


def run_scenario(name: str, env: Mapping[str, str]) -> bool:
    """Run one, note every step, and say whether all of them passed."""
    argv = ["molecule", "test", "--destroy=never", "--no-command-borders", f"--scenario-name={name}"]
    began = step_began = time.monotonic()
    with subprocess.Popen(
        argv, cwd=CHECKOUT, env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            found = STEP.search(line)
            if found:
                now = time.monotonic()
                outcome = "failed" if "fail" in found[3].lower() else "passed"  # or skipped: the lab is there already
                note(Event("step", f"{found[1]}: {found[2]}", round(now - step_began, 1), outcome))
                step_began = now
    passed = process.returncode == 0
    note(Event("scenario", name, round(time.monotonic() - began, 1), "passed" if passed else "failed"))
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", default="molecule", help="name of the lab (default: molecule)")
    parser.add_argument("--os", default="", help="what the nodes run (default: as firstlight lab up)")
    parser.add_argument("scenarios", nargs="+", help="scenarios, in this order")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    down = ["firstlight", "lab", "down", "--name", arguments.lab]
    passed: list[str] = []
    failed: list[str] = []
    with (
        socket.socket(socket.AF_UNIX) as claim,
        tempfile.TemporaryDirectory(prefix="firstlight-molecule-") as directory,
    ):
        if not claimed(claim, arguments.lab):
            parser.error(
                f"another run uses the lab {arguments.lab}, and this one would take it down; wait, or use --lab"
            )
        env = environment(arguments.lab, directory, arguments.os)
        subprocess.run(down, cwd=CHECKOUT, check=True)
        try:
            for name in arguments.scenarios:
                # What a scenario leaves, the ones after it need not bring again.
                if run_scenario(name, {**env, "MOLECULE_DONE": " ".join(passed)}):
                    passed.append(name)
                else:
                    failed.append(name)
        finally:
            subprocess.run(down, cwd=CHECKOUT, check=False)
    print(f"{len(passed)} passed, {len(failed)} failed")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
