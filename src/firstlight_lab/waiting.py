# SPDX-License-Identifier: Apache-2.0
"""Wait for the parts of a lab."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from .host import Engine
from .shell import LabError


def wait_for_node(engine: Engine, container: str, node: Mapping[str, Any]) -> None:
    """Wait until a recorded node has booted, has its cables and accepts logins."""
    name, address = node["name"], node["address"]

    def ready() -> bool:
        # `--wait` returns when the node has booted: polling would take CPU time that booting needs.
        asked = ("timeout", "30", "systemctl", "is-system-running", "--wait")
        if engine.docker("exec", container, *asked, check=False).strip() not in ("running", "degraded"):
            return False
        return set(node["ports"]) <= set(engine.docker("exec", container, "ls", "/sys/class/net").split())

    wait_until(ready, 90, f"{name} did not finish starting; inspect it with: docker logs {container}")
    wait_until(lambda: answers(address, 22), 30, f"sshd on {name} does not answer")


def wait_for_services(address: str) -> None:
    """Wait until all services that nodes download from respond."""
    for port, what in ((80, "apt repository"), (443, "registry"), (8443, "model hub"), (8444, "wheel index")):
        wait_until(lambda port=port: answers(address, port), 30, f"The lab's {what} does not answer")  # type: ignore[misc]


def answers(address: str, port: int) -> bool:
    """Return whether something listens on the port."""
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float, message: str) -> None:
    """Poll until the condition holds. Raises LabError with the message and the timeout."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"{message} (waited {seconds:.0f} s).")
        time.sleep(0.3)
