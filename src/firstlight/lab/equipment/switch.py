# SPDX-License-Identifier: Apache-2.0
"""The lab's fabric switch. Runs in a container with a network namespace of its own.

It holds one bridge and, for every node port, a cable (veth pair) whose far end is pushed into the node's network
namespace under the hardware's name. A node that reboots comes back with a new namespace and no cable: the switch
notices the new process id and plugs it in again. Because bridge and cables live in this namespace, they vanish with
the container and nothing is left on the machine.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

BRIDGE = "fabric"
MTU_FILE = Path("/run/fabric-mtu")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the engine's socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        self.sock.connect(self._path)


def process_of(container: str) -> int:
    """The process id of a running container's init, or 0."""
    connection = UnixConnection("/run/engine.sock")
    try:
        connection.request("GET", f"/containers/{container}/json")
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            return 0
        state = json.loads(body)["State"]
        return int(state["Pid"]) if state["Running"] and not state["Restarting"] else 0
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def ip(*argv: str) -> bool:
    """Run ip(8); False when it refused, with its words on stderr."""
    done = subprocess.run(["ip", *argv], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"ip {' '.join(argv)}: {done.stderr.strip()}", file=sys.stderr, flush=True)
    return done.returncode == 0


def plug(node: int, ports: list[str], pid: int, mtu: int) -> bool:
    """One cable per port from the bridge into the namespace of process `pid`."""
    for number, port in enumerate(ports):
        local = f"n{node}p{number}"
        subprocess.run(["ip", "link", "del", local], capture_output=True, check=False)
        cable = ("link", "add", local, "mtu", str(mtu), "type", "veth")
        if not ip(*cable, "peer", "name", port, "mtu", "1500", "netns", str(pid)):
            return False
        if not ip("link", "set", local, "master", BRIDGE, "up"):
            return False
    return True


def main() -> None:
    wiring: dict[str, list[str]] = json.loads(os.environ["FABRIC_WIRING"])
    MTU_FILE.write_text(os.environ["FABRIC_MTU"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("link", "set", BRIDGE, "mtu", MTU_FILE.read_text(), "up")
    plugged: dict[str, int] = {}
    while True:
        for index, (node, ports) in enumerate(wiring.items()):
            pid = process_of(node)
            if pid and plugged.get(node) != pid and plug(index, ports, pid, int(MTU_FILE.read_text())):
                plugged[node] = pid
                print(f"plugged {node} ({pid}): {', '.join(ports)}", flush=True)
        time.sleep(0.5)


if __name__ == "__main__":
    main()
