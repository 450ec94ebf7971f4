# SPDX-License-Identifier: Apache-2.0
"""Identify a machine: a read-only script that needs nothing but a shell, and parsers for its output. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.pcie_paths import pairs_of, way
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.lspci import parse_lspci
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.serial import parse_serial
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_list import parse_smi_list
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.text import parse_os_release
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.topo import parse_topo

from .network import parse_lldp

MARK = "@@firstlight "

SCRIPT = r"""
LC_ALL=C; export LC_ALL; PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
section() { printf '\n@@firstlight %s\n' "$1"; }
section hostname; uname -n
section architecture; uname -m
section boot; cat /proc/sys/kernel/random/boot_id
section os; cat /etc/os-release
section virtual; grep -m 1 -o -w hypervisor /proc/cpuinfo
section vendor; cat /sys/class/dmi/id/sys_vendor
section product; cat /sys/class/dmi/id/product_name || tr -d '\0' < /proc/device-tree/model
section serial; cat /sys/class/dmi/id/product_serial || tr -d '\0' < /proc/device-tree/serial-number
section python; python3 -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])'
section pci
for device in /sys/bus/pci/devices/*; do
    read -r vendor < "$device/vendor" && [ "$vendor" = 0x10de ] || continue
    read -r class < "$device/class" && read -r product < "$device/device" || continue
    class=${class#0x}
    echo "${device##*/} ${class%??}: 10de:${product#0x}"
done
section gpus; command -v nvidia-smi > /dev/null && timeout 15 nvidia-smi -L
section topology; command -v nvidia-smi > /dev/null && timeout 15 nvidia-smi topo -m
section links
for link in /sys/class/net/*; do
    [ -e "$link/address" ] || continue
    read -r mac < "$link/address"
    carrier=; read -r carrier < "$link/carrier"
    speed=; read -r speed < "$link/speed"
    echo "${link##*/} $mac ${carrier:--} ${speed:--}"
done
section route; ip -4 route get "${SSH_CONNECTION%% *}"
section lldp; command -v lldpctl > /dev/null && timeout 10 lldpctl -f json
section end
"""

ROOT_SCRIPT = r"""
LC_ALL=C; export LC_ALL
section() { printf '\n@@firstlight %s\n' "$1"; }
section serial; cat /sys/class/dmi/id/product_serial || dmidecode -s system-serial-number
section product; cat /sys/class/dmi/id/product_name || dmidecode -s system-product-name
section end
"""
"""The serial number in firmware is readable by root only."""

_DEVICE = re.compile(r"\bdev (?P<name>\S+)")


@dataclass(frozen=True)
class Link:
    """A network port; `carrier` is None if the port is down and cannot detect it."""

    name: str
    mac: str
    carrier: bool | None
    speed_mbit: int | None
    neighbour: str | None = None


@dataclass(frozen=True)
class Machine:
    """What a machine reported about itself; unknown values are None."""

    hostname: str | None = None
    architecture: str | None = None
    boot: str | None = None
    os: str | None = None
    vendor: str | None = None
    product: str | None = None
    serial: str | None = None
    python: str | None = None
    gpu_count: int = 0
    gpu_names: tuple[str, ...] = ()
    nvswitches: int = 0
    virtual: bool = False
    """Whether its processors report a hypervisor."""
    pair: str | None = None
    """The path between every two GPUs, as in `nvidia-smi topo -m`; None if it is not the same for all pairs."""
    mac: str | None = None
    links: tuple[Link, ...] = field(default=())

    def as_document(self) -> dict[str, Any]:
        return asdict(self)


class ProbeError(ValueError):
    """The output is not that of the script."""


def sections(text: str) -> dict[str, str]:
    """Split the output into sections. Raises ProbeError if the end is missing, as truncated output is unusable."""
    parts = ("\n" + text).split(f"\n{MARK}")
    found = {name.strip(): body.strip("\n") for name, _, body in (part.partition("\n") for part in parts[1:])}
    if "end" not in found:
        raise ProbeError("the host's answer is truncated: run the command again")
    return found


def read_machine(text: str) -> Machine:
    """Parse the output of `SCRIPT`. Raises ProbeError."""
    said = sections(text)
    release = parse_os_release(said.get("os", ""))
    bus, _ = parse_lspci(said.get("pci", "")) if said.get("pci") else ({}, [])
    listed, _ = parse_smi_list(said.get("gpus", "")) if said.get("gpus") else ({}, [])
    names = tuple(str(gpu["name"]) for gpu in listed.get("gpus", []) if gpu.get("name"))
    links = _links(said)
    device = _DEVICE.search(said.get("route", ""))
    return Machine(
        hostname=_line(said.get("hostname")),
        architecture=_line(said.get("architecture")),
        boot=_line(said.get("boot")),
        os=release.get("PRETTY_NAME") or release.get("NAME"),
        vendor=_line(said.get("vendor")),
        product=_line(said.get("product")),
        serial=parse_serial(said.get("serial")),
        python=_line(said.get("python")),
        gpu_count=max(len(bus.get("gpus", [])), len(names)),
        gpu_names=names,
        nvswitches=len(bus.get("nvswitches", [])),
        virtual=_line(said.get("virtual")) == "hypervisor",
        pair=_pair(said.get("topology", "")),
        mac=next((link.mac for link in links if device and link.name == device["name"]), None),
        links=tuple(links),
    )


def read_firmware(text: str) -> dict[str, str | None]:
    """Parse serial number and product from the output of `ROOT_SCRIPT`. Raises ProbeError."""
    said = sections(text)
    return {"serial": parse_serial(said.get("serial")), "product": _line(said.get("product"))}


def _pair(text: str) -> str | None:
    topo, problems = parse_topo(text) if text else ({}, [])
    words = {way(topo, one, other) for one, other in pairs_of(topo.get("gpus") or ())}
    return words.pop() if len(words) == 1 and not problems else None


def _links(said: Mapping[str, str]) -> list[Link]:
    try:
        neighbours = {one.interface: f"{one.name} {one.port}".strip() for one in parse_lldp(said.get("lldp", ""))}
    except ValueError:
        neighbours = {}
    links = []
    for line in said.get("links", "").splitlines():
        words = line.split()
        if len(words) != 4 or words[0] == "lo":
            continue
        speed = int(words[3]) if words[3].isdecimal() else None
        carrier = {"1": True, "0": False}.get(words[2])
        links.append(Link(words[0], words[1].lower(), carrier, speed, neighbours.get(words[0])))
    return links


def _line(text: str | None) -> str | None:
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[0][:120] if lines else None
