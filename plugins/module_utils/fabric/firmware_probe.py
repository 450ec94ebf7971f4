# SPDX-License-Identifier: Apache-2.0
"""Read a host's firmware versions (BIOS, NICs, GPUs) from files, and from ethtool for NICs without RDMA."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..host import Host
from .firmware import bios_version, components, ethtool_version, nic_version, ports_of, read_record, vbios_version

DMI = "/sys/class/dmi/id"
NET = "/sys/class/net"
GPUS = "/proc/driver/nvidia/gpus"


def read_versions(host: Host, ports: Iterable[str], timeout: float = 10.0) -> dict[str, str]:
    """Return the versions by component, as far as the host reports them."""
    bios = bios_version(host.read_text(f"{DMI}/bios_version"), host.read_text(f"{DMI}/bios_date"))
    nics = {port: _nic(host, port, timeout) for port in ports}
    gpus = {bus: vbios_version(host.read_text(f"{GPUS}/{bus}/information")) for bus in host.names(GPUS)}
    return components(bios, nics, gpus)


def _nic(host: Host, port: str, timeout: float) -> str | None:
    place = f"{NET}/{port}/device/infiniband"
    for device in host.names(place):
        told = nic_version(host.read_text(f"{place}/{device}/fw_ver"))
        if told:
            return told
    if not host.has("ethtool"):
        return None
    ran = host.run(["ethtool", "-i", port], timeout)
    return ethtool_version(ran.stdout) if ran.ok else None


def read_firmware(host: Host, path: str, timeout: float) -> dict[str, Any]:
    """Read a firmware record, and the present versions on the host if the record names any."""
    record = read_record(host.read_text(path))
    recorded = record["recorded"]
    return {**record, "now": read_versions(host, ports_of(recorded), timeout) if recorded else {}}
