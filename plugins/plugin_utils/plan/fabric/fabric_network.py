# SPDX-License-Identifier: Apache-2.0
"""The fabric ports of a host: one netplan file, the links it leads to, and the record of their connectivity test."""

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
"""Answer only on the port that has the address; ask with the address of the port that asks.

The twin ports of a card are usually on one cable and one VLAN, each with a subnet of its own. By default Linux answers
on any port for any address of the host, so peers learn the twin's MAC for an address: packets of one rail arrive on the
other, at half the width, and RDMA drops them, as their GID is not that port's.
"""
RDMA_PACKAGES = frozenset({"rdma-core", "ibverbs-utils", "perftest"})
"""Of no use without RDMA, and not on every host's package sources."""
_PORT_NAME_LIMIT = 15
_PORT_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@+")
"""Others are legal for the kernel, but are patterns, separators or quotes to netplan, networkd or systemd."""
_NO_PORT_NAMES = frozenset({".", "..", "renderer"})
"""Not names of files; and the word that netplan reads as a setting where ports are listed."""
_RENDERERS = ("", NETWORKD, NETWORK_MANAGER)
MTU_LEAST, MTU_MOST = 1280, 9216
"""The least for IPv6, and what switches pass."""


def is_port_name(name: str) -> bool:
    """Whether a port can have this name, and every tool that is given it takes it for one."""
    return 1 <= len(name) <= _PORT_NAME_LIMIT and not set(name) - _PORT_CHARACTERS and name not in _NO_PORT_NAMES


def _port(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One port, checked: what is wrong here would make netplan drop the whole file, or half of a fabric."""
    name = str(entry["port"])
    if not is_port_name(name):
        raise ValueError(
            f"fabric port {name!r} is no network interface name (1 to {_PORT_NAME_LIMIT} letters, digits or ._-@+): "
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
            f"address of fabric port {name} is {text!r}, which is no host address with a prefix length: "
            "write it as 192.168.100.10/24"
        )
    return {"port": name, "address": str(address), "mtu": mtu}


def _unusable(network: ipaddress.IPv4Network) -> tuple[ipaddress.IPv4Address, ipaddress.IPv4Address]:
    return network.network_address, network.broadcast_address


def checked_ports(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The ports of a host, each valid, none twice, each rail in a subnet of its own."""
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
    """The netplan file for these ports, in their order.

    Without a renderer the ports belong to whoever has the host's other ones: a second manager on a host is a second one
    that clears up after others.
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
    """Packages, netplan file and links; with `fabric_network_peers` the connectivity test too; nothing without ports.

    The connectivity test is state like any other: a run in which it failed leaves the role pending, so the next run
    tests again instead of going on over a fabric that never worked. Of ports that are still to be found on the host
    only the packages are known.
    """
    entries = list(variables.get("fabric_network_ports") or [])
    if variables.get("fabric_network_state") == "absent":
        # The ledger goes last, so there is something to do for as long as it is there.
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
        # What was tested was tested on the firmware of that day.
        state["firmware"] = {firmware_path(report): {}}
    arp = arp_state(entry["port"] for entry in ports)
    files |= arp.get("files", {})
    state |= {"files": files, "links": wanted_links(ports), **_rdma(rdma)}
    state |= {kind: wanted for kind, wanted in arp.items() if kind != "files"}
    return _with_class(state, [entry["port"] for entry in ports], variables.get("fabric_network_qos"))


def arp_state(ports: Iterable[str]) -> dict[str, Any]:
    """Kernel settings and their file for these ports; udev applies the file whenever a port appears."""
    # In a key of sysctl a dot separates, so that a port with one in its name cannot be named there.
    named = [port for port in ports if "." not in port]
    sysctl = {f"net.ipv4.conf.{port}.{name}": value for port in named for name, value in ARP_SETTINGS.items()}
    if not sysctl:
        return {}
    text = render("fabric_network", "sysctl.conf", settings=sysctl)
    state: dict[str, Any] = {"files": {SYSCTL_FILE: root_file(text)}, "sysctl": sysctl}
    # What was set for a port that is no rail any more is given back.
    return {**state, "ledgers": {LEDGER: {"keeps": keeps(state)}}}


def qos_unit(qos: Qos) -> str:
    """The unit whose instances give a port the class."""
    return render(
        "fabric_network",
        "qos.service",
        priority=qos.priority,
        dscp=qos.dscp,
        nccl_traffic_class=nccl_traffic_class(qos.dscp),
        rdma_cm=RDMA_CM,
    )


def qos_state(ports: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """The unit and its instances in the words of a desired state; without a class, that no instance is left."""
    qos = checked_qos(values)
    if qos is None:
        off = {"enabled": False, "active": False, "if_present": True}
        return {"units": {instance(port): dict(off) for port in ports}}
    return {
        "files": {f"{UNIT_DIRECTORY}/{UNIT}": root_file(qos_unit(qos))},
        "units": {instance(port): {"enabled": True, "active": True} for port in ports},
    }


def _with_class(state: dict[str, Any], ports: list[str], qos: Mapping[str, Any] | None) -> dict[str, Any]:
    """With the lossless class of RoCE, or with none left of it; it is not looked at where nothing is said of it."""
    if qos is None:
        return state
    more = qos_state(ports, qos)
    return {**state, **more, "files": {**state["files"], **more.get("files", {})}}


def _rdma(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What the RDMA devices behind the ports must show; a field that is left out is not looked at."""
    fields = ("speed_mbit", "active_mtu", "address", "link_layer")
    wanted = {str(entry["port"]): {field: entry[field] for field in fields if entry.get(field)} for entry in entries}
    return {"rdma": wanted} if wanted else {}
