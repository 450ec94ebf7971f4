# SPDX-License-Identifier: Apache-2.0
"""The demonstration: run the product's own playbook on the lab's nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from firstlight.errors import FAILED
from firstlight.playbooks import STATUS

from .cluster import Lab
from .shell import LabError


def checkout() -> Path:
    """Return the directory of site.yml: the working directory, or the checkout of this installation."""
    for candidate in (Path.cwd(), Path(__file__).resolve().parents[2]):
        if (candidate / "site.yml").exists():
            return candidate
    raise LabError("site.yml was not found here. Run the command in a checkout of Firstlight.")


def playbook_command(root: Path) -> list[str]:
    """Return the command for the ansible-playbook beside this interpreter, with the lab's inventory."""
    return [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "site.yml",
        "-i",
        str(root / "inventory" / "lab"),
    ]


def converge(lab: Lab) -> int:
    """Run site.yml on a running lab."""
    root = checkout()
    lab.say("Running site.yml on the lab")
    env = {**os.environ, "FIRSTLIGHT_LAB": lab.name, "FIRSTLIGHT_CACHE": str(lab.cache.root)}
    status = subprocess.run(playbook_command(root), cwd=root, env=env, check=False).returncode
    if status == 0:
        lab.say(f"Done. Look around with: firstlight lab ssh --name {lab.name} {lab.record()['nodes'][0]['name']}")
        lab.say(f"Take it down with: firstlight lab down --name {lab.name}")
    return STATUS.get(status, FAILED)
