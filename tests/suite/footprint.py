# SPDX-License-Identifier: Apache-2.0
"""What a lab could leave behind on this machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ENGINE = ("dockerd", "containerd", "containerd-shim", "mmdebstrap")
Footprint = dict[str, list[str]]


def machine_footprint() -> Footprint:
    """Links, mounts, daemons, runtime directories, control groups and kernel settings, as they are now."""
    links = [entry["ifname"] for entry in json.loads(subprocess.check_output(["ip", "-j", "link"], text=True))]
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    daemons = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            name = (directory / "comm").read_text().strip()
            state = (directory / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z" and name in ENGINE:
            daemons.append(f"{name} {directory.name}")
    runtime = [
        path.name for path in Path("/run").iterdir() if path.name.startswith(("firstlight", "docker", "containerd"))
    ]
    return {
        "links": sorted(links),
        "mounts": sorted(m for m in mounts if "docker" in m or "firstlight" in m),
        "daemons": sorted(daemons),
        "runtime": sorted(runtime),
        "cgroups": sorted(str(path) for path in Path("/sys/fs/cgroup").glob("*/docker")),
        "swappiness": [Path("/proc/sys/vm/swappiness").read_text().strip()],
    }


def new_since(before: Footprint, after: Footprint) -> Footprint:
    """What is there now and was not before, by kind; empty where nothing is."""
    new = {kind: sorted(set(names) - set(before.get(kind, []))) for kind, names in after.items()}
    return {kind: names for kind, names in new.items() if names}
