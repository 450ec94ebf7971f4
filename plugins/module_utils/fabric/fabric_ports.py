# SPDX-License-Identifier: Apache-2.0
"""Read the network ports and RDMA devices of a target from sysfs; ports.py assembles them.

Every file may be missing, empty or unreadable (a port that is down returns EINVAL for its carrier and speed): that is
never an error, the value is just unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ..host import Host
from ..parsers.ibv_devinfo import parse_ibv_devinfo
from .ports import Port, assemble

NET = "sys/class/net"
RDMA = "sys/class/infiniband"
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NET_FILES = ("address", "mtu", "carrier", "speed", "phys_port_name", "phys_switch_id", "dev_port")
_PORT_FILES = ("state", "phys_state", "rate", "link_layer")
_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def read_ports(
    host: Host, root: str = "/", named: Mapping[str, Mapping[str, Any]] | None = None, timeout: float = 30.0
) -> dict[str, Port]:
    """Read every port with a PCI function, bonds of such ports, every named port, and every RDMA device.

    `named` may give a port's cage and half from its hardware profile; they apply if the port itself does not show them.
    """
    wanted = named or {}
    net = {}
    for name in _listed(os.path.join(root, NET)):
        reading = _net(host, os.path.join(root, NET, name))
        if reading["pci"] or name in wanted:
            net[name] = reading
    # A bond holds the addresses of its members, so a rail may be on it.
    for master in {str(reading["master"]) for reading in net.values() if reading["master"]} - net.keys():
        if os.path.isdir(os.path.join(root, NET, master, "bonding")):
            net[master] = _net(host, os.path.join(root, NET, master))
    rdma = {name: _rdma(host, os.path.join(root, RDMA, name)) for name in _listed(os.path.join(root, RDMA))}
    # Only this tool shows the MTU that RDMA really uses.
    devinfo = host.run(["ibv_devinfo"], timeout).stdout if rdma and host.has("ibv_devinfo") else ""
    return assemble(net, rdma, parse_ibv_devinfo(devinfo), wanted)


def port_names(named: Mapping[str, Mapping[str, Any]], root: str = "/") -> list[str]:
    """List the ports that `read_ports` would read, bonds excepted, without reading them."""
    listed = _listed(os.path.join(root, NET))
    return [name for name in listed if name in named or _function(os.path.join(root, NET, name, "device"))]


def rdma_ports(root: str = "/") -> list[str]:
    """Return the network ports of the host's RDMA devices."""
    found = [
        port
        for device in _listed(os.path.join(root, RDMA))
        for port in _listed(os.path.join(root, RDMA, device, "device", "net"))
    ]
    return list(dict.fromkeys(found))


def _net(host: Host, place: str) -> dict[str, Any]:
    device = os.path.join(place, "device")
    reading: dict[str, Any] = {name: host.read_text(os.path.join(place, name)) for name in _NET_FILES}
    master = os.path.join(place, "master")
    return reading | {
        "pci": _function(device),
        "driver": "bonding" if os.path.isdir(os.path.join(place, "bonding")) else _target(device, "driver"),
        "vendor": host.read_text(os.path.join(device, "vendor")),
        "device": host.read_text(os.path.join(device, "device")),
        "virtual_function": os.path.lexists(os.path.join(device, "physfn")),
        "master": os.path.basename(os.path.realpath(master)) if os.path.lexists(master) else None,
        "members": host.read_text(os.path.join(place, "bonding", "slaves")),
    }


def _rdma(host: Host, place: str) -> dict[str, Any]:
    device = os.path.join(place, "device")
    ports = os.path.join(place, "ports")
    return {
        "pci": _function(device),
        "driver": _target(device, "driver"),
        "firmware": host.read_text(os.path.join(place, "fw_ver")),
        "sys_image_guid": host.read_text(os.path.join(place, "sys_image_guid")),
        "ports": {int(one): _rdma_port(host, os.path.join(ports, one)) for one in _listed(ports) if one.isdecimal()},
    }


def _rdma_port(host: Host, place: str) -> dict[str, Any]:
    reading: dict[str, Any] = {name: host.read_text(os.path.join(place, name)) for name in _PORT_FILES}
    attributes = os.path.join(place, "gid_attrs")
    gids, netdevs = [], []
    for index in sorted((one for one in _listed(os.path.join(place, "gids")) if one.isdecimal()), key=int):
        gid = (host.read_text(os.path.join(place, "gids", index)) or "").strip()
        if gid in ("", _NO_GID):
            continue  # the table has 256 entries, nearly all of them empty
        kind = host.read_text(os.path.join(attributes, "types", index))
        gids.append({"index": int(index), "gid": gid, "type": kind})
        netdevs.append((host.read_text(os.path.join(attributes, "ndevs", index)) or "").strip())
    if not any(netdevs):  # a port that is down has no GIDs
        netdevs = [(host.read_text(os.path.join(attributes, "ndevs", "0")) or "").strip()]
    # A VLAN on a port has GIDs in the port's table as well; the first entry is the port's own.
    return reading | {"gids": gids, "netdevs": [name for name in dict.fromkeys(netdevs) if name]}


def _function(device: str) -> str | None:
    """Return the PCI function of a device: its own, or that of its virtio device. A USB device has none."""
    bus = _target(device, "subsystem")
    place = os.path.realpath(device)
    name = os.path.basename(place if bus == "pci" else os.path.dirname(place) if bus == "virtio" else "")
    return name if _PCI.fullmatch(name) else None


def _target(place: str, link: str) -> str | None:
    """Return the base name of a link's target, which is the name of a driver or a bus."""
    path = os.path.join(place, link)
    return os.path.basename(os.path.realpath(path)) if os.path.lexists(path) else None


def _listed(place: str) -> list[str]:
    try:
        return sorted(os.listdir(place))
    except OSError:
        return []
