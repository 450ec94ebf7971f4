# SPDX-License-Identifier: Apache-2.0
"""Assemble the network ports of a host from sysfs: the RDMA device, cage and twin of each.

A cage of a DGX Spark holds one cable and appears as two ports: the same function of one network chip in two PCI
domains. Only both together carry the cable's full rate, so it matters which two belong together. Names cannot show
that, because they differ between systems; the chip's own numbers can.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..parsers.captures import link_layer, number, physical_state, port_state, version

Port = dict[str, Any]
Reading = Mapping[str, Any]

_CHIP_DRIVER = "mlx5_core"
_PCI = re.compile(r"(?P<domain>[0-9a-f]{4,8}):(?P<place>[0-9a-f]{2}:[0-9a-f]{2})\.(?P<function>[0-7])")
_FASTEST = 10_000_000
"""Mb/s. Without a link, ports report -1, 65535 or 4294967295 depending on the kernel, none of which is a speed."""
_NEAR = 8
"""MAC addresses of one chip's functions differ by less than this."""
ROCE_V2 = "RoCE v2"


def assemble(
    net: Mapping[str, Reading],
    rdma: Mapping[str, Reading],
    devinfo: Mapping[str, Mapping[int, Mapping[str, Any]]] | None = None,
    known: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Port]:
    """Return every port by its name; an RDMA device without a port is listed under its own name, with `port` None.

    `net` and `rdma` are the texts of sysfs (see fabric_ports.py), `devinfo` is the output of `ibv_devinfo`. `known` has
    the cage and half of ports by name, from the hardware profile: they apply where PCI functions do not show them.
    """
    ports = {name: _port(name, reading) for name, reading in sorted(net.items())}
    taken = _give_devices(ports, net, rdma)
    for device, reading in sorted(rdma.items()):
        for number_ in sorted(reading.get("ports") or {}):
            if (device, number_) not in taken:
                key = device if number_ == 1 else f"{device}/{number_}"
                ports.setdefault(key, empty_port() | {"pci": reading.get("pci"), "driver": reading.get("driver")})
                _add_device(ports[key], device, number_, reading)
    for port in ports.values():
        told = ((devinfo or {}).get(port["rdma_device"] or "") or {}).get(port["rdma_port"] or 1) or {}
        port["active_mtu"] = told.get("active_mtu")
    _place(ports, net, rdma, known or {})
    return ports


def empty_port() -> Port:
    return {
        "port": None,
        "driver": None,
        "pci": None,
        "vendor": None,
        "device": None,
        "mac": None,
        "mtu": None,
        "carrier": None,
        "speed_mbit": None,
        "virtual_function": False,
        "master": None,
        "members": [],
        "rdma_device": None,
        "rdma_port": None,
        "rdma_state": None,
        "rdma_phys_state": None,
        "link_layer": None,
        "rate_gbit": None,
        "active_mtu": None,
        "firmware": None,
        "gids": [],
        "cage": None,
        "half": None,
        "twin": None,
    }


def _port(name: str, reading: Reading) -> Port:
    speed, mtu = _whole(reading.get("speed")), _whole(reading.get("mtu"))
    return empty_port() | {
        "port": name,
        "driver": reading.get("driver"),
        "pci": reading.get("pci"),
        "vendor": _text(reading.get("vendor")),
        "device": _text(reading.get("device")),
        "mac": _text(reading.get("address")),
        "mtu": mtu,
        "carrier": {"1": True, "0": False}.get(_text(reading.get("carrier")) or ""),
        "speed_mbit": speed if speed is not None and 0 < speed < _FASTEST and speed != 65535 else None,
        "virtual_function": bool(reading.get("virtual_function")),
        "master": reading.get("master"),
        "members": (_text(reading.get("members")) or "").split(),
    }


def _give_devices(
    ports: Mapping[str, Port], net: Mapping[str, Reading], rdma: Mapping[str, Reading]
) -> set[tuple[str, int]]:
    """Assign each port its RDMA device: as the kernel reports it, else by the same PCI function."""
    taken: set[tuple[str, int]] = set()
    for device, reading in sorted(rdma.items()):
        for number_, port in sorted((reading.get("ports") or {}).items()):
            name = next((one for one in port.get("netdevs") or () if one in ports), None)
            if name is not None and ports[name]["rdma_device"] is None:
                _add_device(ports[name], device, number_, reading)
                taken.add((device, number_))
    for name, port in ports.items():
        if port["rdma_device"] is not None or port["pci"] is None:
            continue
        # A card with several ports on one function numbers them; elsewhere it is the first.
        number_ = (_whole(net[name].get("dev_port")) or 0) + 1
        for device, reading in sorted(rdma.items()):
            numbers = reading.get("ports") or {}
            at = number_ if number_ in numbers else min(numbers, default=0)
            if reading.get("pci") == port["pci"] and at in numbers and (device, at) not in taken:
                _add_device(port, device, at, reading)
                taken.add((device, at))
                break
    return taken


def _add_device(port: Port, device: str, number_: int, reading: Reading) -> None:
    told = reading["ports"][number_]
    port |= {
        "rdma_device": device,
        "rdma_port": number_,
        "rdma_state": port_state(told.get("state") or ""),
        "rdma_phys_state": physical_state(told.get("phys_state") or ""),
        "link_layer": link_layer(told.get("link_layer") or ""),
        "rate_gbit": number(told.get("rate") or ""),
        "firmware": version(reading.get("firmware") or ""),
        "gids": roce_gids(told.get("gids") or ()),
    }


def roce_gids(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the RoCE v2 GIDs of the port's IPv4 addresses; their indexes differ from host to host."""
    found = []
    for entry in entries:
        try:
            mapped = ipaddress.IPv6Address(_text(entry.get("gid")) or "").ipv4_mapped
        except ValueError:
            continue
        if mapped is not None and _text(entry.get("type")) == ROCE_V2:
            found.append({"index": int(entry["index"]), "address": str(mapped), "type": ROCE_V2})
    return found


def _place(
    ports: Mapping[str, Port],
    net: Mapping[str, Reading],
    rdma: Mapping[str, Reading],
    known: Mapping[str, Mapping[str, Any]],
) -> None:
    """Set the cage and the twin of each port that has them."""
    groups: dict[str, list[str]] = {}
    for name, port in ports.items():
        at = _PCI.fullmatch(port["pci"] or "")
        if port["port"] and at and port["driver"] == _CHIP_DRIVER and not port["virtual_function"]:
            groups.setdefault(at["place"], []).append(name)
    boards = [board for names in groups.values() for board in _boards(names, ports, net, rdma)]
    split = [board for board in boards if len({_domain(ports[name]) for name in board}) > 1]
    # Cages are numbered at the socket on a machine with one such chip; with several they could not be told apart.
    if len(split) == 1:
        domains = sorted({_domain(ports[name]) for name in split[0]})
        for name in split[0]:
            ports[name] |= {"cage": _cage(ports[name], net[name]), "half": domains.index(_domain(ports[name]))}
    for name, port in ports.items():
        # Two halves that look like two separate cards are placed by the profile, and so are virtual ports.
        told_apart = port["driver"] != _CHIP_DRIVER or port["virtual_function"] or split
        if port["port"] and (port["pci"] is None or not told_apart):
            port |= {field: (known.get(name) or {}).get(field) for field in ("cage", "half")}
    for halves in cages(ports).values():
        if len(halves) == 2:
            one, other = halves.values()
            ports[one]["twin"], ports[other]["twin"] = other, one


def _cage(port: Port, reading: Reading) -> int:
    """Return the number at the socket: the PCI function's, which the driver's port name (p0, p1) repeats."""
    told = re.fullmatch(r"p(\d)", _text(reading.get("phys_port_name")) or "")
    at = _PCI.fullmatch(port["pci"])
    return int(told[1]) if told else int(at["function"]) if at else 0


def _boards(
    names: Iterable[str], ports: Mapping[str, Port], net: Mapping[str, Reading], rdma: Mapping[str, Reading]
) -> list[list[str]]:
    """Group ports at the same address in different PCI domains by the chip that they are functions of."""
    boards: list[list[str]] = []
    for name in names:
        for board in boards:
            if any(_same_chip(name, other, ports, net, rdma) for other in board):
                board.append(name)
                break
        else:
            boards.append([name])
    return boards


def _same_chip(
    one: str, other: str, ports: Mapping[str, Port], net: Mapping[str, Reading], rdma: Mapping[str, Reading]
) -> bool:
    """Compare the identities that chip or switch report; without them, whether the MAC addresses are adjacent."""
    guids = [_text((rdma.get(ports[name]["rdma_device"] or "") or {}).get("sys_image_guid")) for name in (one, other)]
    if all(guids):
        return guids[0] == guids[1]
    switches = [_text(net[name].get("phys_switch_id")) for name in (one, other)]
    if all(switches):
        return switches[0] == switches[1]
    macs = [_number_of(ports[name]["mac"]) for name in (one, other)]
    return macs[0] is not None and macs[1] is not None and abs(macs[0] - macs[1]) < _NEAR


def _number_of(mac: str | None) -> int | None:
    try:
        return int((mac or "").replace(":", ""), 16)
    except ValueError:
        return None


def _domain(port: Mapping[str, Any]) -> str:
    return str(port["pci"] or "").partition(":")[0]


def cages(ports: Mapping[str, Mapping[str, Any]]) -> dict[int, dict[int, str]]:
    """Return the ports by cage and half; the half on the lower PCI domain is 0."""
    found: dict[int, dict[int, str]] = {}
    for name, port in sorted(ports.items(), key=lambda item: (item[1].get("cage") or 0, item[1].get("half") or 0)):
        if port.get("cage") is not None and port.get("half") is not None:
            found.setdefault(port["cage"], {}).setdefault(port["half"], name)
    return found


def shown(port: Mapping[str, Any]) -> str:
    """Describe a port for a message: its name, its cage, and whether it has a carrier."""
    carrier = {True: "carrier", False: "no carrier", None: "down, so its carrier is unknown"}[port["carrier"]]
    name = port["port"] or f"{port['rdma_device']} without a network port"
    cage = f" (cage {port['cage']})" if port["cage"] is not None else ""
    layer = f", {port['link_layer']}" if port["link_layer"] == "InfiniBand" else ""
    return f"{name}{cage} {carrier if port['port'] else 'state ' + str(port['rdma_state']).lower()}{layer}"


def _text(value: Any) -> str | None:
    return (str(value).strip() or None) if value is not None else None


def _whole(value: Any) -> int | None:
    """Parse a number from sysfs; None for anything else. Some drivers write dev_port in hexadecimal."""
    text = _text(value) or ""
    if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text):
        return int(text, 16)
    return int(text) if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else None
