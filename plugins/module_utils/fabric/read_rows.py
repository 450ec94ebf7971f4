# SPDX-License-Identifier: Apache-2.0
"""Join what several tools print about a host's fabric ports into one row per port."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..parsers.captures import by_host
from ..parsers.ethtool import ethtool_readings, parse_ethtool
from ..parsers.host_ports import parse_ip, parse_sysfs_net, parse_sysfs_rdma
from ..parsers.ibdev2netdev import parse_ibdev2netdev
from ..parsers.ibstat import parse_ibstat
from ..parsers.ibstatus import parse_ibstatus
from ..parsers.ibv_devinfo import parse_ibv_devinfo
from ..parsers.rdma_link import parse_rdma_link

FIELDS = (
    "host",
    "device",
    "port",
    "netdev",
    "state",
    "phys_state",
    "rate_gbit",
    "speed_mbit",
    "link_layer",
    "active_mtu",
    "mtu",
    "firmware",
    "type",
    "link",
    "autonegotiation",
    "fec",
)

_RdmaParser = Callable[[str], dict[str, dict[int, dict[str, Any]]]]
_NetParser = Callable[[str], dict[str, dict[str, Any]]]
# Later tools override earlier ones for the same field: they ask the driver instead of reading a file.
_RDMA: tuple[tuple[str, _RdmaParser], ...] = (
    ("sysfs", parse_sysfs_rdma),
    ("ibstatus", parse_ibstatus),
    ("ibstat", parse_ibstat),
    ("ibdev2netdev", parse_ibdev2netdev),
    ("rdma link", parse_rdma_link),
    ("ibv_devinfo", parse_ibv_devinfo),
)
_NET: tuple[tuple[str, _NetParser], ...] = (
    ("sysfs", parse_sysfs_net),
    ("ip", parse_ip),
    ("ethtool", parse_ethtool),
)
_PCI_NAME = re.compile(r"^(?:en|roce|ib|ibp)(?P<path>(?:P\d+)?p\d+s\d+(?:f\d+)?)(?:d\d+)?(?:np\d+|n\w+)?$")
_FUNCTION = re.compile(r"^(?:P(?P<domain>\d+))?p(?P<bus>\d+)s(?P<slot>\d+)f(?P<function>\d+)$")
_IPOIB = re.compile(r"^ib(?:p|s|P|\d)")
_FABRIC_NAME = re.compile(r"^(?:en|eth|ib|roce)\w*\d")

Row = dict[str, Any]


def pci_path(name: str | None) -> str | None:
    """Return the PCI function in a udev name: p1s0f1 for enp1s0f1np1 and rocep1s0f1; None for other names."""
    found = _PCI_NAME.match(name or "")
    return found["path"] if found else None


def cage(row: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return cage and half by a port's name: enp1s0f1np1 and enP2p1s0f1np1 are halves 0 and 1 of cage 1."""
    found = _FUNCTION.match(pci_path(row["netdev"]) or pci_path(row["device"]) or "")
    return (int(found["function"]), 1 if found["domain"] else 0) if found else None


def read_rows(texts: Iterable[str], known_ports: Iterable[str] = ()) -> tuple[list[Row], list[str], list[str]]:
    """Return the rows of all hosts, the tools that were recognised, and remarks about the captures themselves.

    `known_ports` are the names of fabric ports: for those, `ip` alone is enough for a row. For other ports `ip` only
    adds to what an RDMA tool or ethtool printed, because it lists every loopback and bridge. If neither `known_ports`
    nor such a row exists, ports from `ip` with a fabric-like name are taken.
    """
    captures: dict[str, list[str]] = {}
    for text in texts:
        for host, part in by_host(text).items():
            captures.setdefault(host, []).append(part)
    named = [host for host in captures if host]
    if len(named) == 1 and "" in captures:
        captures = {named[0]: [*captures[""], *captures[named[0]]]}
    rows: list[Row] = []
    tools: dict[str, None] = {}
    remarks: list[str] = []
    for host, parts in captures.items():
        text = "\n$\n".join(parts)
        rows += _host_rows(host, text, frozenset(known_ports), tools)
        remarks += [f"{host}: {remark}" if len(named) > 1 else remark for remark in _told_twice(text)]
    return rows, list(tools), remarks


def _host_rows(host: str, text: str, known_ports: frozenset[str], tools: dict[str, None]) -> list[Row]:
    by_port: dict[tuple[str, int], Row] = {}
    for tool, parse_rdma in _RDMA:
        for device, ports in parse_rdma(text).items():
            for port, values in ports.items():
                tools[tool] = None
                row = by_port.setdefault((device, port), _row(host, device=device, port=port))
                _fill(row, values)
                if tool == "ibdev2netdev" and row["link"] is None and (values["up"] or not _over_infiniband(values)):
                    row["link"] = values["up"]
                if row["type"] is None and values.get("board_id"):
                    row["type"] = values["board_id"]
    rows = list(by_port.values())
    only_listed: list[Row] = []
    for tool, parse_net in _NET:
        for name, values in parse_net(text).items():
            tools[tool] = None
            owner = _owner(rows, name)
            if owner is None:
                owner = _row(host, netdev=name or None)
                (only_listed if tool == "ip" else rows).append(owner)
            _fill(owner, values)
            _fill_link(owner, tool, values)
    wanted = known_ports or {row["netdev"] for row in only_listed if _FABRIC_NAME.match(row["netdev"])}
    taken = {row["netdev"] for row in rows}
    if known_ports or not rows:
        rows += [row for row in only_listed if row["netdev"] in wanted - taken]
    return rows


def _over_infiniband(values: Mapping[str, Any]) -> bool:
    """Whether the port is IPoIB, which may be down while RDMA works: most InfiniBand fabrics carry no IP at all."""
    return bool(_IPOIB.match(values.get("netdev") or ""))


def _row(host: str, **values: Any) -> Row:
    return {**dict.fromkeys(FIELDS), "host": host, **values}


def _fill(row: Row, values: Mapping[str, Any]) -> None:
    for name in FIELDS[3:]:
        if name != "link" and values.get(name) is not None:
            row[name] = values[name]


def _fill_link(row: Row, tool: str, values: Mapping[str, Any]) -> None:
    """Set whether the port has a link: ethtool is the most reliable, `ip` shows UP or DOWN."""
    told = values["link"] if tool == "ethtool" else values.get("carrier", values.get("up"))
    if told is None and tool == "sysfs":
        told = values["up"]
    if told is not None:
        row["link"] = told


def _owner(rows: list[Row], netdev: str) -> Row | None:
    """Find the row of a network port: as a tool reported it, or by the same PCI function in both names."""
    if not netdev:
        return None
    for row in rows:
        if row["netdev"] == netdev:
            return row
    path = pci_path(netdev)
    for row in rows:
        if path and row["netdev"] is None and pci_path(row["device"]) == path:
            row["netdev"] = netdev
            return row
    return None


def _told_twice(text: str) -> list[str]:
    """Report ports for which ethtool showed different speeds, most likely before and after a change."""
    speeds: dict[str, list[int]] = {}
    for port, values in ethtool_readings(text):
        if port and values.get("speed_mbit"):
            told = speeds.setdefault(port, [])
            if not told or told[-1] != values["speed_mbit"]:
                told.append(values["speed_mbit"])
    return [
        f"{port} is shown with {told[0]} Mb/s first and {told[-1]} Mb/s last: the last one counts"
        for port, told in speeds.items()
        if len(told) > 1
    ]
