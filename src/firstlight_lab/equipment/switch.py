# SPDX-License-Identifier: Apache-2.0
"""The lab's fabric switch. Runs in a container with a network namespace of its own.

It holds one bridge and, for every node port, a cable (veth pair) whose far end is pushed into the node's network
namespace under the hardware's name. A port without a cable is there, too: its near end stays down, so that the node
sees no carrier. A node that reboots comes back with a new namespace and no cable: the switch notices the new process
id and plugs it in again. Because bridge and cables live in this namespace, they vanish with the container and nothing
is left on the machine.

What an administrator of the switch changed is kept in a file, so that it outlives the nodes' reboots and the
switch's own: `python3 switch.py change '{...}'` changes the file and the links that are there, `links` names them.
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


def initial_state(wiring: dict[str, list[str]], mtu: int, cage: int) -> dict[str, Any]:
    """Every node cabled in the same cage, every port alike: {node: {cage, ports: {port: {mtu, down, rate}}}}."""
    return {
        node: {"cage": cage, "ports": {port: {"mtu": mtu, "down": False, "rate": None} for port in ports}}
        for node, ports in wiring.items()
    }


def changed_state(state: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The state after a change: {nodes, ports} name what it is for (none: all), the other keys what becomes of it."""
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
    """A port's name ends with the number of its cage; only one cage of a node has a cable."""
    return int(port[-1]) == node["cage"] and not node["ports"][port]["down"]


def linked(state: dict[str, Any]) -> dict[str, list[str]]:
    """The ports of each node that a cable connects."""
    return {name: [port for port in node["ports"] if has_carrier(node, port)] for name, node in state.items()}


def tool(*argv: str, quiet: bool = False) -> bool:
    """Run ip(8) or tc(8); False when it refused, with its words on stderr."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0 and not quiet:
        print(f"{' '.join(argv)}: {done.stderr.strip()}", file=sys.stderr, flush=True)
    return done.returncode == 0


def link_name(state: dict[str, Any], node: str, port: str) -> str:
    """The switch's own end of a cable."""
    return f"n{list(state).index(node)}p{list(state[node]['ports']).index(port)}"


def mac(node: str, port: str) -> str:
    """A port's address is the same after every reboot, as that of a real one: the others know it still."""
    digits = hashlib.sha256(f"{node} {port}".encode()).hexdigest()[:10]
    return ":".join(["02", *(digits[at : at + 2] for at in range(0, 10, 2))])


def set_link(state: dict[str, Any], node: str, port: str) -> bool:
    """Make the switch's end of a cable as the state says."""
    local, settings = link_name(state, node, port), state[node]["ports"][port]
    tool("tc", "qdisc", "del", "dev", local, "root", quiet=True)  # there is none as long as nobody asked for a rate
    limit = ("root", "tbf", "rate", str(settings["rate"]), "burst", "256kb", "latency", "50ms")
    return (
        tool("ip", "link", "set", local, "mtu", str(settings["mtu"]))
        and (not settings["rate"] or tool("tc", "qdisc", "add", "dev", local, *limit))
        and tool("ip", "link", "set", local, "up" if has_carrier(state[node], port) else "down")
    )


def plug(state: dict[str, Any], node: str, pid: int) -> bool:
    """One cable per port from the bridge into the namespace of process `pid`."""
    for port in state[node]["ports"]:
        local = link_name(state, node, port)
        tool("ip", "link", "del", local, quiet=True)  # of the node before its reboot
        cable = ("ip", "link", "add", local, "type", "veth")
        if not tool(*cable, "peer", "name", port, "address", mac(node, port), "mtu", "1500", "netns", str(pid)):
            return False
        if not tool("ip", "link", "set", local, "master", BRIDGE) or not set_link(state, node, port):
            return False
    return True


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """A node is not plugged in while the state changes."""
    with STATE.with_suffix(".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def change_links(change: dict[str, Any]) -> bool:
    """Keep a change, and make the links that are there as it says; those that are not get it when they come."""
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
    tool("ip", "link", "set", BRIDGE, "mtu", "9216", "up")  # each port has its own; the bridge itself sends nothing
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
