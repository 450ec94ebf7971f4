# SPDX-License-Identifier: Apache-2.0
"""Runs that are cut off in the middle, as by a closed laptop, and the one after them that ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from tests.serving.lab import Profile, Serving
from tests.serving.places import clear
from tests.serving.secrets import Told, with_token

# Those in which most is half done. Not Weights: what a download that was cut off leaves is where the scenario of that
# role begins. The others are one module, which writes each thing whole.
PHASES = ("Container runtime", "Fabric", "Image", "Serve")
INTO_IT = 2.0
"""Seconds of a phase that pass before the run is killed."""
UNITS = "firstlight-keeper.service firstlight-server.service firstlight-ray.service"
"""The keeper first: it would bring the others back."""


def interrupted_runs(serving: Serving, profile: Profile, directory: Path) -> Told:
    """Serve like this on nodes as from the factory, by runs that tell all: one killed in each phase, one that ends."""
    if serving.serves:
        clear(serving)
    serving.profile = profile
    wipe(serving)
    words = with_token(directory)
    try:
        said = [interrupt_at(serving, phase, words, directory / phase) for phase in PHASES]
        said.append(serving.playbook("site.yml", *words).output)
    finally:
        end_what_goes_on(serving)
    serving.serves = True
    return Told("\n".join(said))


def planned_files(serving: Serving) -> list[str]:
    """Every file that the plan puts on some node, but what came with the node's packages."""
    shown = serving.command("sh", "-c", f"firstlight plan -i {serving.profile.inventory} --json 2>/dev/null")
    hosts = json.loads(shown.output)["hosts"].values()
    states = [state for host in hosts for role, state in host["desired"].items() if role != "nvidia_driver"]
    return sorted({path for state in states for kind in ("files", "json_files") for path in state.get(kind, {})})


def wipe(serving: Serving) -> None:
    """Take from the nodes what runs have made, so that the next one starts from the factory state."""
    steps = (
        f"systemctl disable --now {UNITS} 2>/dev/null || true",
        f"rm -rf /var/lib/firstlight /etc/firstlight {' '.join(planned_files(serving))}",
        "systemctl daemon-reload",
        "netplan apply",
        "systemctl restart docker",
        "docker ps -aq | xargs -r docker rm -f",
        "sysctl -q -w vm.swappiness=60",
    )
    serving.on_all(lambda node: serving.inside(node, "; ".join(steps)), serving.profile.nodes)
    # The image of one node: taking it from all of them would only take longer.
    serving.inside(serving.profile.nodes[-1], "docker image ls -q | sort -u | xargs docker rmi -f")


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
