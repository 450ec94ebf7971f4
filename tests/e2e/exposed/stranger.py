# SPDX-License-Identifier: Apache-2.0
"""A node that belongs to nobody: what it can connect to, by every way that leads to the others."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from tests.e2e.exposed.client import HTTPS
from tests.e2e.serving.lab import Serving

Place = tuple[str, int]
OPEN, REFUSED, SILENT = "open", "refused", "silent"
LOOPBACK = ("127.", "[::1]")
SSH, METRICS, SHARE = 22, 9410, 29610
PLANNED = {80, 290, HTTPS, 6379, 8265, 8480, 9100, METRICS, 9420, 10001, 29600, SHARE, 52365}
"""What a plan has listen somewhere, also while it does not just now."""
CONNECT = """
import concurrent.futures, json, socket, sys
def ask(place):
    try:
        found = socket.getaddrinfo(place[0], place[1], type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        with socket.socket(found[0][0], socket.SOCK_STREAM) as one:
            one.settimeout(2)
            one.connect(found[0][4])
        return "open"
    except ConnectionRefusedError:
        return "refused"
    except OSError:
        return "silent"
places = json.load(sys.stdin)
with concurrent.futures.ThreadPoolExecutor(100) as pool:
    print(json.dumps(list(pool.map(ask, places))))
"""


def listening(serving: Serving, node: str) -> set[int]:
    """The TCP ports on which a node listens to more than itself."""
    places = serving.inside(node, "ss -ltnH | awk '{print $4}'").split()
    return {int(place.rpartition(":")[2]) for place in places if not place.startswith(LOOPBACK)}


def link_local(serving: Serving, node: str, interface: str) -> list[str]:
    """The addresses that nobody gave a port of the node."""
    shown = json.loads(serving.inside(node, f"ip -json -6 addr show dev {interface} scope link") or "[]")
    return [str(one["local"]) for port in shown for one in port.get("addr_info", [])]


def tried(serving: Serving, node: str, places: Sequence[Place]) -> dict[Place, str]:
    """What a node meets at each of these places."""
    text = serving.lab.engine().docker(
        *("exec", "-i", serving.lab.container(node), "python3", "-c", CONNECT), stdin=json.dumps(places)
    )
    return dict(zip(places, json.loads(text), strict=True))


def reached(serving: Serving, node: str, addresses: Iterable[str], ports: Iterable[int]) -> set[Place]:
    """The places at which somebody takes a connection of the node."""
    places = [(address, port) for address in addresses for port in sorted(ports)]
    return {place for place, met in tried(serving, node, places).items() if met == OPEN}


@contextmanager
def on_the_fabric(serving: Serving, node: str, address: str, interface: str) -> Iterator[None]:
    """Plug a node into the fabric, with an address that no plan has."""
    serving.inside(node, f"ip link set {interface} up; ip addr add {address} dev {interface}")
    try:
        yield
    finally:
        serving.inside(node, f"ip addr del {address} dev {interface}")


@contextmanager
def by_way_of(serving: Serving, node: str, address: str, gateway: str, interface: str) -> Iterator[None]:
    """Let a node send what is for an address to the wrong door of the same machine."""
    serving.inside(node, f"ip route add {address}/32 via {gateway} dev {interface}")
    try:
        yield
    finally:
        serving.inside(node, f"ip route del {address}/32 dev {interface}")


@contextmanager
def listener(serving: Serving, node: str, port: int) -> Iterator[None]:
    """A server on every address of a node, as one that somebody started without a thought."""
    program = (
        f"import http.server; http.server.HTTPServer(('', {port}), http.server.BaseHTTPRequestHandler).serve_forever()"
    )
    serving.inside(node, f"systemd-run --quiet --unit=careless-{port} python3 -c {shlex.quote(program)}")
    try:
        serving.inside(
            node, f"for try in $(seq 50); do ss -ltnH 'sport = :{port}' | grep -q . && exit; sleep 0.1; done; exit 1"
        )
        yield
    finally:
        serving.inside(node, f"systemctl stop careless-{port}")
