# SPDX-License-Identifier: Apache-2.0
"""Simulated incidents: power loss, broken hardware and drivers, a slow disk, a vanished repository."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from .cluster import Lab
from .containers import LABEL, archive_of
from .images import equipment
from .nvidia import MACHINE_PATH, PCI_PATH, machine_document, pci_files
from .shell import LabError

POWER = {
    "off": "cut the power immediately",
    "on": "switch the node on, and wait until it accepts logins",
    "cycle": "off and on",
    "stays-off": "keep the node off after its next shutdown or reboot",
}
REPOSITORY = {"gone": "drop every connection to the apt repository", "back": "let it answer again"}
_GONE = "/run/apt-gone"
_RATE = re.compile(r"^([1-9][0-9]*)([kmg])b$")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9}
NO_RATE = "none"


def power(lab: Lab, node: str, action: str) -> None:
    """Press a node's power button. Off is immediate: no process is notified, no file is closed."""
    engine, container = lab.engine(), lab.container(node)
    if action in ("off", "cycle"):
        engine.docker("kill", container, check=action == "off")  # a node that is already off may be cycled
    if action == "stays-off":
        engine.docker("update", "--restart=no", container)
    if action in ("on", "cycle"):
        engine.docker("update", "--restart=always", container)
        engine.docker("start", container)
        lab.wait_for(node)


def set_faults(lab: Lab, node: str, faults: Sequence[str]) -> None:
    """Give a node of a running lab exactly these faults; without any, the machine is healthy."""
    profile = str(_entry(lab, node)["machine"]["profile"])
    files = {MACHINE_PATH.lstrip("/"): _described(profile, faults)}
    lab.engine().docker("cp", "-", f"{lab.container(node)}:/", stdin=archive_of(files))


def play(lab: Lab, node: str, profile: str, faults: Sequence[str]) -> None:
    """Turn a node into another machine: switch it off, exchange its hardware, switch it on. Its disk is kept."""
    record = lab.record()
    described = _described(profile, faults)
    entry = _entry(lab, node)
    engine, container = lab.engine(), lab.container(node)
    engine.docker("exec", container, "find", PCI_PATH, "-mindepth", "1", "-delete")
    power(lab, node, "off")
    pci = {f"{PCI_PATH.lstrip('/')}/{path}": content for path, content in pci_files(profile).items()}
    engine.docker("cp", "-", f"{container}:/", stdin=archive_of({MACHINE_PATH.lstrip("/"): described, **pci}))
    entry["machine"] = json.loads(described)
    record["nodes"] = [entry if one["name"] == node else one for one in record["nodes"]]
    lab.write_record(record)
    power(lab, node, "on")


def set_disk(lab: Lab, node: str, rate: str) -> None:
    """Limit the rate at which a node reads from its disk, until it boots again."""
    asked = _RATE.match(rate)
    if asked is None and rate != NO_RATE:
        raise LabError(f"The rate is {rate!r}; expected a number with kb, mb or gb, such as 20mb, or {NO_RATE}.")
    engine = lab.engine()
    identity = engine.docker("inspect", "--format", "{{.Id}}", lab.container(node)).strip()
    image = engine.docker("inspect", "--format", "{{.Config.Image}}", lab.container("services")).strip()
    # The control groups belong to root and, in cgroup v2, the node cannot change its own: so a container that sees all
    # of them does it, whoever the user is.
    engine.docker(
        *("run", "--rm", "--label", f"{LABEL}={lab.name}", "--network=none", "--userns=host", "--cgroupns=host"),
        *("--security-opt=apparmor=unconfined", "-v", "/sys/fs/cgroup:/sys/fs/cgroup", image),
        *("python3", "-c", equipment("disk.py"), identity, str(int(asked[1]) * _UNITS[asked[2]] if asked else 0)),
    )


def _entry(lab: Lab, node: str) -> dict[str, Any]:
    """Return a node's entry in the lab's record. Raises LabError."""
    lab.container(node)  # rejects an unknown name
    entries: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in lab.record()["nodes"]}
    if node not in entries:
        raise LabError(f"{node} has no hardware that could break; the nodes are {', '.join(entries)}.")
    return entries[node]


def _described(profile: str, faults: Sequence[str]) -> str:
    try:
        return machine_document(profile, faults)
    except ValueError as error:
        raise LabError(f"The hardware cannot be simulated: {error}") from None


def set_repository(lab: Lab, state: str, at: str) -> None:
    """Take the apt repository away, starting with the first request that names `at`, or restore it."""
    script = f"rm -f {_GONE}" if state == "back" else f"printf %s {shlex.quote(at)} > {_GONE}"
    lab.engine().docker("exec", lab.container("services"), "sh", "-ec", script)
