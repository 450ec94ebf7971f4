# SPDX-License-Identifier: Apache-2.0
"""Machines as sysfs shows them, under a directory of the test's own.

A tree is a nested dict: text is a file, a Link a symbolic link, a dict a directory. A file that refuses to be read, as
the carrier of a port that is down does, is a directory here: opening it fails, whoever asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.fabric_ports import read_ports

from tests.unit.fake_host import FakeHost, not_installed

REFUSED: dict[str, Any] = {}
"""A file that cannot be read."""


@dataclass(frozen=True)
class Link:
    """A symbolic link; sysfs has relative ones, which stay inside of the tree."""

    target: str


@dataclass(frozen=True)
class Nic:
    """One network port and what is behind it."""

    name: str | None
    pci: str | None = None
    driver: str = "mlx5_core"
    rdma: str | None = None
    mac: str = "4c:bb:47:00:00:00"
    carrier: str | None = "1"
    speed: str | None = "200000"
    mtu: int = 1500
    phys_port_name: str | None = None
    phys_switch_id: str | None = None
    guid: str = "4cbb:4703:0000:0000"
    link_layer: str = "Ethernet"
    rate: str = "200 Gb/sec (4X HDR)"
    gids: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By index: the GID and its type."""
    netdev: bool = True
    """Whether the kernel names the port beside its GIDs."""
    physfn: str | None = None
    bus: str = "pci"


def mapped(address: str) -> str:
    """The GID of an IPv4 address."""
    one, two, three, four = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{one:02x}{two:02x}:{three:02x}{four:02x}"


def write_tree(root: Path, tree: dict[str, Any]) -> None:
    """Make the files, links and directories of a tree."""
    root.mkdir(parents=True, exist_ok=True)
    for name, value in tree.items():
        place = root / name
        if isinstance(value, Link):
            place.symlink_to(value.target)
        elif isinstance(value, dict):
            write_tree(place, value)
        else:
            place.write_text(f"{value}\n")


def _merge(into: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split("/")
    for part in above:
        into = into.setdefault(part, {})
    if isinstance(value, dict) and isinstance(into.get(last), dict):
        for name, one in value.items():
            _merge(into[last], name, one)
    else:
        into[last] = value


def machine(nics: Sequence[Nic], extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """The tree of a machine with these ports."""
    tree: dict[str, Any] = {"sys": {"class": {"net": {}, "infiniband": {}}}}
    for number, nic in enumerate(nics):
        place = f"sys/devices/virtual/{number}"
        if nic.pci is not None:
            place = f"sys/devices/pci{nic.pci[:4]}:00/{nic.pci[:4]}:00:00.0/{nic.pci}"
            if nic.bus == "usb":
                place += "/usb1/1-1/1-1:1.0"
            elif nic.bus == "virtio":
                place += f"/virtio{number}"
            up = "../" * place.count("/")
            device: dict[str, Any] = {
                "vendor": "0x15b3",
                "device": "0x1021",
                "driver": Link(f"{up}bus/{nic.bus}/drivers/{nic.driver}"),
                "subsystem": Link(f"{up}bus/{nic.bus}"),
            }
            if nic.physfn:
                device["physfn"] = Link(f"../{nic.physfn}")
            _merge(tree, place, device)
        if nic.name is not None:
            net = {
                "address": nic.mac,
                "mtu": nic.mtu,
                "carrier": REFUSED if nic.carrier is None else nic.carrier,
                "speed": REFUSED if nic.speed is None else nic.speed,
                "phys_port_name": nic.phys_port_name or REFUSED,
                "phys_switch_id": nic.phys_switch_id or REFUSED,
                "dev_port": "0",
                **({"device": Link("../..")} if nic.pci is not None else {}),
            }
            _merge(tree, f"{place}/net/{nic.name}", net)
            _merge(tree, f"sys/class/net/{nic.name}", Link(f"../../../{place}/net/{nic.name}"))
        if nic.rdma is not None:
            _merge(tree, f"{place}/infiniband/{nic.rdma}", _infiniband(nic))
            _merge(tree, f"sys/class/infiniband/{nic.rdma}", Link(f"../../../{place}/infiniband/{nic.rdma}"))
    _merge(tree, "sys/class/net/bonding_masters", "")
    for path, value in (extra or {}).items():
        _merge(tree, path, value)
    return tree


def _infiniband(nic: Nic) -> dict[str, Any]:
    up = nic.carrier == "1"
    own = {0: ("fe80:0000:0000:0000:4ebb:47ff:fe00:0000", "RoCE v2"), **nic.gids} if up else {}
    gids = {str(index): own[index][0] if index in own else "0000:" * 7 + "0000" for index in range(8)}
    named = nic.name if nic.netdev and nic.link_layer == "Ethernet" else None
    port = {
        "state": "4: ACTIVE" if up else "1: DOWN",
        "phys_state": "5: LinkUp" if up else "3: Disabled",
        "rate": nic.rate,
        "link_layer": nic.link_layer,
        "gids": gids,
        "gid_attrs": {
            "types": {index: own[int(index)][1] if int(index) in own else REFUSED for index in gids},
            "ndevs": {index: named if named and (int(index) in own or index == "0") else REFUSED for index in gids},
        },
    }
    return {
        "fw_ver": "28.45.4028",
        "sys_image_guid": nic.guid,
        "device": Link("../.."),
        "ports": {"1": port},
    }


def spark(cabled: Sequence[int] = (1,), mlx5: bool = False, addresses: Sequence[str] = ()) -> list[Nic]:
    """A DGX Spark: one chip on two PCI domains, two cages, the RJ45 port, and Wi-Fi."""
    nics = []
    for number, (domain, function) in enumerate(((0, 0), (0, 1), (2, 0), (2, 1))):
        letter = "p1" if domain == 0 else "P2p1"
        up = function in cabled
        gids = {}
        if addresses and up:
            own = mapped(addresses[domain // 2])
            gids = {2: (own, "IB/RoCE v1"), 3: (own, "RoCE v2")}
        nics.append(
            Nic(
                f"en{letter}s0f{function}np{function}",
                f"{domain:04x}:01:00.{function}",
                rdma=f"mlx5_{number}" if mlx5 else f"roce{letter}s0f{function}",
                mac=f"4c:bb:47:2f:91:{0x10 + function + 4 * (domain // 2):02x}",
                carrier="1" if up else "0",
                speed="200000" if up else "-1",
                phys_port_name=f"p{function}",
                gids=gids,
            )
        )
    return [
        *nics,
        Nic("enP7s7", "0007:01:00.0", "r8127", mac="4c:bb:47:2f:91:01", speed="10000"),
        Nic("wlP9s9", "0009:01:00.0", "mt7925e", mac="4c:bb:47:2f:91:02", carrier=None, speed=None),
    ]


def hgx(link_layer: str = "Ethernet", netdevs: bool = True) -> list[Nic]:
    """Eight single-port cards of their own beside the GPUs, a two-port card for storage, and one for management."""
    roce = link_layer == "Ethernet"
    cards = [
        Nic(
            (f"enp{bus}s0np0" if roce else f"ibp{bus}s0") if netdevs else None,
            f"0000:{bus:02x}:00.0",
            rdma=f"mlx5_{number}",
            mac=f"a0:88:c2:{number:02x}:14:2a",
            speed="400000" if roce else None,
            phys_port_name="p0" if roce else None,
            guid=f"a088:c203:00e3:14{number:02x}",
            link_layer=link_layer,
            rate="400 Gb/sec (4X NDR)",
        )
        for number, bus in enumerate((24, 64, 79, 94, 154, 192, 206, 220))
    ]
    storage = [
        Nic(
            f"enp41s0f{function}np{function}",
            f"0000:29:00.{function}",
            rdma=f"mlx5_{8 + function}",
            mac=f"e8:eb:d3:33:07:d{function}",
            carrier=str(1 - function),
            speed="100000" if function == 0 else "-1",
            phys_port_name=f"p{function}",
            guid="e8eb:d303:0033:07da",
        )
        for function in (0, 1)
    ]
    return [*cards, *storage, Nic("eno1", "0000:01:00.0", "i40e", mac="00:11:22:33:44:55", speed="1000")]


class Machines:
    """What tests describe machines with: sysfs.read(sysfs.spark()) are the ports of a Spark."""

    Link, Nic, REFUSED = Link, Nic, REFUSED
    mapped, spark, hgx = staticmethod(mapped), staticmethod(spark), staticmethod(hgx)

    def __init__(self, places: pytest.TempPathFactory) -> None:
        self._places = places

    def build(self, nics: Sequence[Any], extra: dict[str, Any] | None = None) -> str:
        """Write a machine, and say under which root it is."""
        root = self._places.mktemp("machine")
        write_tree(root, machine(nics, extra))
        return str(root)

    def read(
        self, nics: Sequence[Any], extra: dict[str, Any] | None = None, devinfo: str = "", **arguments: Any
    ) -> dict[str, Any]:
        """Write a machine, and read its ports."""
        return read_ports(FakeHost({"ibv_devinfo": devinfo or not_installed}), self.build(nics, extra), **arguments)


@pytest.fixture(scope="session")
def sysfs(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    """Machines under directories of their own."""
    return Machines(tmp_path_factory)
