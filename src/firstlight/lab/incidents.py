# SPDX-License-Identifier: Apache-2.0
"""What happens to machines: the power goes, hardware and drivers break, a repository vanishes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from .cluster import Lab, archive_of
from .nvidia import MACHINE_PATH, machine_document
from .shell import LabError

POWER = {
    "off": "cut the power, now",
    "on": "switch the node on, and wait until it lets people in",
    "cycle": "off and on",
    "stays-off": "let the node stay off when it next shuts down or reboots",
}
REPOSITORY = {"gone": "break off every connection to the apt repository", "back": "let it answer again"}
_GONE = "/run/apt-gone"


def power(lab: Lab, node: str, action: str) -> None:
    """Do to a node what somebody at its power button does. Off is at once: no process is asked, no file is closed."""
    engine, container = lab.engine(), lab.container(node)
    if action in ("off", "cycle"):
        engine.docker("kill", container, check=action == "off")  # a node that is off already may be cycled
    if action == "stays-off":
        engine.docker("update", "--restart=no", container)
    if action in ("on", "cycle"):
        engine.docker("update", "--restart=always", container)
        engine.docker("start", container)
        lab.wait_for(node)


def set_faults(lab: Lab, node: str, faults: Sequence[str]) -> None:
    """Give a node of a running lab exactly these faults; none is a machine in good health."""
    entries = {entry["name"]: entry for entry in lab.record()["nodes"]}
    container = lab.container(node)
    if node not in entries:
        raise LabError(f"{node} has no hardware that could break; the nodes are {', '.join(entries)}.")
    try:
        document = machine_document(str(entries[node]["machine"]["profile"]), faults)
    except ValueError as error:
        raise LabError(f"The fault cannot be played: {error}") from None
    lab.engine().docker("cp", "-", f"{container}:/", stdin=archive_of({MACHINE_PATH.lstrip("/"): document}))


def set_repository(lab: Lab, state: str, at: str) -> None:
    """Take the apt repository away, from the first request on that names `at`, or bring it back."""
    script = f"rm -f {_GONE}" if state == "back" else f"printf %s {shlex.quote(at)} > {_GONE}"
    lab.engine().docker("exec", lab.container("services"), "sh", "-ec", script)
