# SPDX-License-Identifier: Apache-2.0
"""Parses ports from `ip` and sysfs files in a capture: `ip -br addr`, `ip addr`, `cat /sys/class/.../rate`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .captures import (
    capture_lines,
    json_objects,
    link_layer,
    number,
    physical_state,
    port_state,
    sections,
    version,
    whole,
)

_OPERSTATES = ("UP", "DOWN", "UNKNOWN", "LOWERLAYERDOWN", "DORMANT", "NOTPRESENT", "TESTING")
_BRIEF = re.compile(rf"^(?P<name>[^\s:/@]{{1,15}})(?:@\S+)?\s+(?P<state>{'|'.join(_OPERSTATES)})(?:\s+(?P<rest>.*))?$")
_FULL = re.compile(r"^\s*\d{1,6}:\s+(?P<name>[^\s:@]{1,15})(?:@[^\s:]+)?:\s+<(?P<flags>[^>]*)>(?P<rest>.*)$")
_INET = re.compile(r"^\s+inet6?\s+(?P<address>[0-9a-fA-F:.]+/\d{1,3})\b")
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", re.IGNORECASE)


def parse_ip(text: str) -> dict[str, dict[str, Any]]:
    """Parse `ip addr` and `ip link`, in full, with -br or with -j: {port: {up, mtu, addresses}}; missing is None."""
    ports: dict[str, dict[str, Any]] = {}
    current: dict[str, Any] | None = None
    for line in capture_lines(text):
        brief, full, address = _BRIEF.match(line), _FULL.match(line), _INET.match(line)
        if full:
            mtu = re.search(r"\bmtu\s+(\d{1,6})\b", full["rest"])
            state = re.search(r"\bstate\s+(\w+)", full["rest"])
            flags = full["flags"].split(",")
            up = _up(state[1]) if state else None
            if up is None:
                up = "LOWER_UP" in flags
            current = _add(ports, full["name"], up, int(mtu[1]) if mtu else None)
        elif brief:
            current = None
            rest = (brief["rest"] or "").split()
            found = _add(ports, brief["name"], _up(brief["state"]), None)
            if not any(_MAC.fullmatch(word) for word in rest):
                found["addresses"] = [word for word in rest if "/" in word]
        elif address and current is not None:
            current["addresses"] = [*(current["addresses"] or []), address["address"]]
    for one in json_objects(text):
        if isinstance(one.get("ifname"), str) and isinstance(one.get("operstate"), str):
            mtu_told = one.get("mtu")
            found = _add(ports, one["ifname"], _up(one["operstate"]), mtu_told if isinstance(mtu_told, int) else None)
            listed = one.get("addr_info")
            if isinstance(listed, list):
                found["addresses"] = [
                    f"{entry.get('local')}/{entry.get('prefixlen')}" for entry in listed if isinstance(entry, dict)
                ]
    return ports


def _up(state: str) -> bool | None:
    """Whether a port is up; None for one that cannot tell (UNKNOWN: loopback, tunnels)."""
    return {"UP": True, "DOWN": False, "LOWERLAYERDOWN": False, "NOTPRESENT": False}.get(state)


def _add(ports: dict[str, dict[str, Any]], name: str, up: bool | None, mtu: int | None) -> dict[str, Any]:
    values = ports.setdefault(name, {"up": None, "mtu": None, "addresses": None})
    values["up"] = up
    if mtu is not None:
        values["mtu"] = mtu
    return values


_RDMA_FILE = re.compile(r"/sys/class/infiniband/(?P<device>[^/\s*:]+)/(?:ports/(?P<port>\d{1,3})/)?(?P<name>[\w]+)")
_NET_FILE = re.compile(r"/sys/class/net/(?P<device>[^/\s*:]+)/(?P<name>[\w]+)")
_AFTER = re.compile(r"^(?P<path>/sys/class/\S+?)\s*(?::|=)\s*(?P<value>.*)$")
_BANNER = re.compile(r"^==> (?P<path>/sys/class/\S+) <==$")

_RDMA_FILES: dict[str, tuple[str, Any]] = {
    "state": ("state", port_state),
    "phys_state": ("phys_state", physical_state),
    "rate": ("rate_gbit", number),
    "link_layer": ("link_layer", link_layer),
    "fw_ver": ("firmware", version),
}
_NET_FILES: dict[str, tuple[str, Any]] = {
    "speed": ("speed_mbit", whole),
    "mtu": ("mtu", whole),
    "operstate": ("up", lambda value: {"up": True, "down": False}.get(value.lower())),
    "carrier": ("carrier", {"1": True, "0": False}.get),
}


def parse_sysfs_rdma(text: str) -> dict[str, dict[int, dict[str, Any]]]:
    """Parse /sys/class/infiniband files: {device: {port: {state, phys_state, rate_gbit, link_layer, firmware}}}."""
    devices: dict[str, dict[int, dict[str, Any]]] = {}
    for path, value in _sysfs_values(text):
        found = _RDMA_FILE.match(path)
        if found and found["name"] in _RDMA_FILES:
            name, read = _RDMA_FILES[found["name"]]
            fields = dict.fromkeys(field for field, _ in _RDMA_FILES.values())
            ports = devices.setdefault(found["device"], {})
            ports.setdefault(int(found["port"] or 1), fields)[name] = read(value)
    return devices


def parse_sysfs_net(text: str) -> dict[str, dict[str, Any]]:
    """Parse files under /sys/class/net: {port: {speed_mbit, mtu, up, carrier}}; missing is None."""
    ports: dict[str, dict[str, Any]] = {}
    for path, value in _sysfs_values(text):
        found = _NET_FILE.match(path)
        if found and found["name"] in _NET_FILES:
            name, read = _NET_FILES[found["name"]]
            ports.setdefault(found["device"], dict.fromkeys(field for field, _ in _NET_FILES.values()))[name] = read(
                value
            )
    return ports


def _sysfs_values(text: str) -> Iterator[tuple[str, str]]:
    """Yield file and value, from `cat FILE ...`, `grep . FILES` and `head FILES`."""
    for section in sections(text):
        words = section.command.words if section.command and section.command.tool == "cat" else ()
        waiting = [word for word in words if word.startswith("/sys/class/")]
        if any("*" in word for word in waiting):
            waiting = []  # which file a line belongs to is unknown
        for line in section.lines:
            told, banner = _AFTER.match(line.strip()), _BANNER.match(line.strip())
            if banner:
                waiting = [banner["path"]]
            elif told:
                yield told["path"], told["value"].strip()
            elif waiting and line.strip():
                yield waiting.pop(0), line.strip()
