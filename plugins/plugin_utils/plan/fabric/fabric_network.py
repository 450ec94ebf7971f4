# SPDX-License-Identifier: Apache-2.0
"""The desired state of a host's fabric ports: one netplan file, its links, and the record of the connectivity test."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.ping import record_text
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.firmware import firmware_path
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.qos import (
    RDMA_CM,
    UNIT,
    UNIT_DIRECTORY,
    Qos,
    checked_qos,
    instance,
    nccl_traffic_class,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.assessment import MANAGED
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.generated_units import (
    NETWORK_MANAGER,
    NETWORKD,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.outcome import wanted_links
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import root_file
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.settings import keeps
from ansible_collections.firstlight.cluster.plugins.plugin_utils.templates import render

NETPLAN_FILE = "/etc/netplan/40-cx7.yaml"
RECORD_FILE = "/var/lib/firstlight/fabric.connectivity"
LEDGER = "/var/lib/firstlight/fabric_network/ledger.json"
SYSCTL_FILE = "/etc/sysctl.d/zz-firstlight-fabric.conf"
ARP_SETTINGS = {"arp_ignore": "1", "arp_announce": "2"}
"""Answer ARP only on the port that has the address; send requests with the address of the sending port.

The twin ports of a card are usually on one cable and one VLAN, each with a subnet of its own. By default Linux answers
on any port for any address of the host, so peers learn the twin's MAC for an address: packets of one rail arrive on the
other, at half the width, and RDMA drops them, as their GID is not that port's.
"""
RDMA_PACKAGES = frozenset({"rdma-core", "ibverbs-utils", "perftest"})
"""Useless without RDMA, and missing from the package sources of some hosts."""
_PORT_NAME_LIMIT = 15
_PORT_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@+")
"""The kernel allows others, but to netplan, networkd or systemd they are patterns, separators or quotes."""
_NO_PORT_NAMES = frozenset({".", "..", "renderer"})
"""Invalid file names, and the key that netplan reads as a setting where ports are listed."""
_RENDERERS = ("", NETWORKD, NETWORK_MANAGER)
MTU_LEAST, MTU_MOST = 1280, 9216
"""The minimum for IPv6, and the largest that switches pass."""


def is_port_name(name: str) -> bool:
    """Whether a port can have this name, and every tool that receives it reads it as one."""
    return 1 <= len(name) <= _PORT_NAME_LIMIT and not set(name) - _PORT_CHARACTERS and name not in _NO_PORT_NAMES


def _port(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Validate one port: an invalid value would make netplan drop the whole file, or half of a fabric."""
    name = str(entry["port"])
    if not is_port_name(name):
        raise ValueError(
            f"fabric port {name!r} is not a network interface name (1 to {_PORT_NAME_LIMIT} letters, digits or ._-@+): "
            "use the name that `ip -br link` shows"
        )
    mtu = int(entry["mtu"])
    if not MTU_LEAST <= mtu <= MTU_MOST:
        raise ValueError(
            f"MTU of fabric port {name} is {mtu}, expected {MTU_LEAST} to {MTU_MOST}: "
            "set firstlight_fabric.mtu to 9000, or to 1500 where the switch has no jumbo frames"
        )
    text = str(entry["address"])
    try:
        address = ipaddress.IPv4Interface(text)
    except ValueError as error:
        raise ValueError(
            f"address of fabric port {name} is {text!r}, expected an IPv4 address with its prefix "
            f"such as 192.168.100.10/24 ({error}): correct it"
        ) from error
    if "/" not in text or (address.network.prefixlen < 31 and address.ip in _unusable(address.network)):
        raise ValueError(
            f"address of fabric port {name} is {text!r}, which is not a host address with a prefix length: "
            "write it as 192.168.100.10/24"
        )
    return {"port": name, "address": str(address), "mtu": mtu}


def _unusable(network: ipaddress.IPv4Network) -> tuple[ipaddress.IPv4Address, ipaddress.IPv4Address]:
    return network.network_address, network.broadcast_address


def checked_ports(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Validate the ports of a host: no duplicates, and each rail in a subnet of its own."""
    ports = [_port(entry) for entry in entries]
    for index, one in enumerate(ports):
        for other in ports[:index]:
            if one["port"] == other["port"]:
                raise ValueError(f"fabric port {one['port']} is listed twice: give each rail a port of its own")
            here, there = (ipaddress.IPv4Interface(entry["address"]).network for entry in (one, other))
            if here.overlaps(there):
                raise ValueError(
                    f"fabric ports {other['port']} ({other['address']}) and {one['port']} ({one['address']}) "
                    "are in one subnet, so the kernel would answer both through one of them: "
                    "give each rail its own subnet"
                )
    return ports


def netplan_yaml(ports: Iterable[Mapping[str, Any]], renderer: str = "") -> str:
    """Render the netplan file for these ports, in their order.

    Without a renderer the ports belong to the manager of the host's other ports: a second network manager on a host is
    a second one that removes what it did not configure.
    """
    return render(
        "fabric_network",
        "netplan.yaml",
        managed=MANAGED,
        ports=ports,
        renderer=renderer,
        disable_ipv6=renderer == NETWORK_MANAGER,
    )


def _renderer(variables: Mapping[str, Any]) -> str:
    given = str(variables.get("fabric_network_renderer") or "")
    if given not in _RENDERERS:
        raise ValueError(
            f"fabric_network_renderer is {given!r}, expected {NETWORKD}, {NETWORK_MANAGER}, or empty for the host's "
            "own choice: set one of these"
        )
    return given


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the packages, the netplan file, the links and the connectivity test; empty without ports.

    The connectivity test is included if there are `fabric_network_peers`. It is state like any other: if it failed, the
    role stays pending, so the next run tests again instead of going on over a fabric that never worked. For ports that
    are still to be found on the host, only the packages are known.
    """
    entries = list(variables.get("fabric_network_ports") or [])
    if variables.get("fabric_network_state") == "absent":
        # The ledger goes last, so the role has work to do for as long as it exists.
        return {"ledgers": {LEDGER: {"keeps": []}}}
    if not entries:
        return {}
    rdma = variables.get("fabric_network_rdma") or []
    listed = [str(name) for name in variables.get("fabric_network_packages") or []]
    packages = [name for name in listed if rdma or name not in RDMA_PACKAGES]
    state: dict[str, Any] = {"packages": dict.fromkeys(packages)} if packages else {}
    if any(entry.get("port") is None for entry in entries):
        return state
    ports = checked_ports(entries)
    files: dict[str, Any] = {
        str(variables.get("fabric_network_file") or NETPLAN_FILE): root_file(
            netplan_yaml(ports, _renderer(variables)), mode="0600"
        )
    }
    peers = variables.get("fabric_network_peers") or []
    if peers:
        report = str(variables.get("fabric_network_record") or RECORD_FILE)
        files[report] = root_file(record_text(peers))
        # A test result holds only for the firmware it ran on.
        state["firmware"] = {firmware_path(report): {}}
    arp = arp_state(entry["port"] for entry in ports)
    files |= arp.get("files", {})
    state |= {"files": files, "links": wanted_links(ports), **_rdma(rdma)}
    state |= {kind: wanted for kind, wanted in arp.items() if kind != "files"}
    return _with_class(state, [entry["port"] for entry in ports], variables.get("fabric_network_qos"))


def arp_state(ports: Iterable[str]) -> dict[str, Any]:
    """Return kernel settings and their file for these ports; udev applies the file whenever a port appears."""
    # A dot separates the parts of a sysctl key, so a port with a dot in its name cannot be addressed there.
    named = [port for port in ports if "." not in port]
    sysctl = {f"net.ipv4.conf.{port}.{name}": value for port in named for name, value in ARP_SETTINGS.items()}
    if not sysctl:
        return {}
    text = render("fabric_network", "sysctl.conf", settings=sysctl)
    state: dict[str, Any] = {"files": {SYSCTL_FILE: root_file(text)}, "sysctl": sysctl}
    # Settings of a port that is no longer a rail are restored.
    return {**state, "ledgers": {LEDGER: {"keeps": keeps(state)}}}


def qos_unit(qos: Qos) -> str:
    """Render the unit whose instances assign a port its traffic class."""
    return render(
        "fabric_network",
        "qos.service",
        priority=qos.priority,
        dscp=qos.dscp,
        nccl_traffic_class=nccl_traffic_class(qos.dscp),
        rdma_cm=RDMA_CM,
    )


def qos_state(ports: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the unit and its instances as desired state; without a class, every instance is switched off."""
    qos = checked_qos(values)
    if qos is None:
        off = {"enabled": False, "active": False, "if_present": True}
        return {"units": {instance(port): dict(off) for port in ports}}
    return {
        "files": {f"{UNIT_DIRECTORY}/{UNIT}": root_file(qos_unit(qos))},
        "units": {instance(port): {"enabled": True, "active": True} for port in ports},
    }


def _with_class(state: dict[str, Any], ports: list[str], qos: Mapping[str, Any] | None) -> dict[str, Any]:
    """Add the lossless traffic class of RoCE, or its removal; left unmanaged where `qos` is None."""
    if qos is None:
        return state
    more = qos_state(ports, qos)
    return {**state, **more, "files": {**state["files"], **more.get("files", {})}}


def _rdma(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the RDMA devices behind the ports must show; omitted fields are not checked."""
    fields = ("speed_mbit", "active_mtu", "address", "link_layer")
    wanted = {str(entry["port"]): {field: entry[field] for field in fields if entry.get(field)} for entry in entries}
    return {"rdma": wanted} if wanted else {}
