# SPDX-License-Identifier: Apache-2.0
"""The lab's fabric switch, which runs in a container with its own network namespace.

It has one bridge and, for every node port, a cable (veth pair) whose far end is moved into the node's network namespace
under the hardware's name. Ports without a cable exist as well: their near end stays down, so that the node sees no
carrier. A node that reboots gets a new namespace without cables: the switch notices the new process id and plugs them
in again. Because bridge and cables live in this namespace, they vanish with the container and nothing is left on the
machine.

Changes by the switch's administrator are kept in a file, so that they survive reboots of the nodes and of the switch:
`python3 switch.py change '{...}'` changes the file and the existing links, `links` lists the links.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BRIDGE = "fabric"
STATE = Path("/run/fabric.json")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the engine's Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        self.sock.connect(self._path)


def process_of(container: str) -> int:
    """Return the process id of a running container's init, or 0."""
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


def initial_state(wiring: dict[str, list[str]], mtu: int, cage: int) -> dict[str, Any]:
    """Return the initial state, with all nodes cabled in `cage`: {node: {cage, ports: {port: {mtu, down, rate}}}}."""
    return {
        node: {"cage": cage, "ports": {port: {"mtu": mtu, "down": False, "rate": None} for port in ports}}
        for node, ports in wiring.items()
    }


def changed_state(state: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return the state after a change: its {nodes, ports} select (none: all), its other keys are the new values."""
    result: dict[str, Any] = json.loads(json.dumps(state))
    for name, node in result.items():
        if change["nodes"] and name not in change["nodes"]:
            continue
        node["cage"] = change.get("cage", node["cage"])
        for port, settings in node["ports"].items():
            if not change["ports"] or port in change["ports"]:
                settings.update({key: change[key] for key in settings if key in change})
    return result


def has_carrier(node: dict[str, Any], port: str) -> bool:
    """Return whether a port has a carrier. Its name ends with its cage's number; only one cage of a node is cabled."""
    return int(port[-1]) == node["cage"] and not node["ports"][port]["down"]


def linked(state: dict[str, Any]) -> dict[str, list[str]]:
    """Return the ports of each node that have a carrier."""
    return {name: [port for port in node["ports"] if has_carrier(node, port)] for name, node in state.items()}


def tool(*argv: str, quiet: bool = False) -> bool:
    """Run ip(8) or tc(8); if it fails, print its error to stderr and return False."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0 and not quiet:
        print(f"{' '.join(argv)}: {done.stderr.strip()}", file=sys.stderr, flush=True)
    return done.returncode == 0


def link_name(state: dict[str, Any], node: str, port: str) -> str:
    """Return the name of the switch's end of a cable."""
    return f"n{list(state).index(node)}p{list(state[node]['ports']).index(port)}"


def mac(node: str, port: str) -> str:
    """Return a port's MAC address, which stays the same across reboots, like that of real hardware."""
    digits = hashlib.sha256(f"{node} {port}".encode()).hexdigest()[:10]
    return ":".join(["02", *(digits[at : at + 2] for at in range(0, 10, 2))])


def set_link(state: dict[str, Any], node: str, port: str) -> bool:
    """Configure the switch's end of a cable according to the state."""
    local, settings = link_name(state, node, port), state[node]["ports"][port]
    tool("tc", "qdisc", "del", "dev", local, "root", quiet=True)  # fails unless a rate was set before
    limit = ("root", "tbf", "rate", str(settings["rate"]), "burst", "256kb", "latency", "50ms")
    return (
        tool("ip", "link", "set", local, "mtu", str(settings["mtu"]))
        and (not settings["rate"] or tool("tc", "qdisc", "add", "dev", local, *limit))
        and tool("ip", "link", "set", local, "up" if has_carrier(state[node], port) else "down")
    )


def plug(state: dict[str, Any], node: str, pid: int) -> bool:
    """Connect each port of the node with a cable from the bridge into the namespace of process `pid`."""
    for port in state[node]["ports"]:
        local = link_name(state, node, port)
        tool("ip", "link", "del", local, quiet=True)  # left from before the node's reboot
        cable = ("ip", "link", "add", local, "type", "veth")
        if not tool(*cable, "peer", "name", port, "address", mac(node, port), "mtu", "1500", "netns", str(pid)):
            return False
        if not tool("ip", "link", "set", local, "master", BRIDGE) or not set_link(state, node, port):
            return False
    return True


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Lock the state, so that no node is plugged in while it changes."""
    with STATE.with_suffix(".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def change_links(change: dict[str, Any]) -> bool:
    """Save a change and apply it to existing links; others get it when they are created."""
    with locked():
        before = json.loads(STATE.read_text())
        after = changed_state(before, change)
        STATE.write_text(json.dumps(after))
        there = os.listdir("/sys/class/net")
        done = [
            set_link(after, node, port)
            for node in after
            for port in after[node]["ports"]
            if after[node] != before[node] and link_name(after, node, port) in there
        ]
        return all(done)


def serve() -> None:
    """Plug in every node that starts, for as long as the lab is up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    wiring: dict[str, list[str]] = json.loads(os.environ["FABRIC_WIRING"])
    if not STATE.exists():
        mtu, cage = int(os.environ["FABRIC_MTU"]), int(os.environ["FABRIC_CAGE"])
        STATE.write_text(json.dumps(initial_state(wiring, mtu, cage)))
    tool("ip", "link", "add", BRIDGE, "type", "bridge")
    tool("ip", "link", "set", BRIDGE, "mtu", "9216", "up")  # each port has its own MTU; the bridge itself sends nothing
    plugged: dict[str, int] = {}
    while True:
        for node in wiring:
            pid = process_of(node)
            if not pid or plugged.get(node) == pid:
                continue
            with locked():
                if plug(json.loads(STATE.read_text()), node, pid):
                    plugged[node] = pid
                    print(f"plugged {node} ({pid})", flush=True)
        time.sleep(0.5)


if __name__ == "__main__":
    if sys.argv[1:2] == ["change"]:
        sys.exit(0 if change_links(json.loads(sys.argv[2])) else 1)
    if sys.argv[1:2] == ["links"]:
        print(json.dumps(linked(json.loads(STATE.read_text()))))
        sys.exit()
    serve()
