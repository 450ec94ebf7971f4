# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed half-way, as by a closed laptop, and the one after them that finishes what they began."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

from tests.e2e.serving.lab import EXPOSED, Serving
from tests.e2e.serving.places import clear
from tests.e2e.support import CHECKOUT

# Those that leave most half done. Not model_weights: its scenario begins with what a download that was cut off leaves.
ROLES = ("container_runtime", "fabric_network", "inference_image", "inference_server")
UNITS = "firstlight-supervisor.service firstlight-server.service firstlight-ray.service"
"""The supervisor first: it would bring the others back."""


def test_a_run_finishes_what_killed_runs_have_begun(rack: Serving) -> None:
    """On nodes as from the factory: a run is killed in each of these roles, the next one ends, and one more is idle."""
    if rack.serves:
        clear(rack)
    rack.profile = EXPOSED
    wipe(rack)
    try:
        for role in ROLES:
            killed_in(rack, role)
        rack.playbook("site.yml")
        rack.serves = True
        rack.assert_serves()
        again = rack.playbook("site.yml")
        assert again.changed == dict.fromkeys(EXPOSED.nodes, 0), again.output[-6000:]
    finally:
        end_what_goes_on(rack)


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
    serving.inside(serving.profile.nodes[-1], "docker image ls -q | sort -u | xargs -r docker rmi -f")


def killed_in(serving: Serving, role: str) -> None:
    """Run site.yml until this role has changed something, and no further."""
    killer = {
        "ANSIBLE_CALLBACK_PLUGINS": str(CHECKOUT / "tests/e2e/callbacks"),
        "ANSIBLE_CALLBACKS_ENABLED": "firstlight.cluster.preload,kill_after_change",
        "FIRSTLIGHT_KILL_IN_ROLE": role,
    }
    run = serving.command(*serving.words("site.yml"), fails=True, env=killer)
    assert run.status == -signal.SIGKILL, f"not killed in {role}:\n{run.output[-6000:]}"


def end_what_goes_on(serving: Serving) -> None:
    """Ansible's workers lead sessions of their own and outlive a killed parent. The lab is in their environment."""
    mark = f"FIRSTLIGHT_LAB={serving.name}".encode()
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"ansible-playbook" in (directory / "cmdline").read_bytes() and mark in (
                (directory / "environ").read_bytes().split(b"\0")
            ):
                os.kill(int(directory.name), signal.SIGKILL)
