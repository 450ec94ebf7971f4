# SPDX-License-Identifier: Apache-2.0
"""Environment variables that tell ranks which fabric interfaces, RDMA devices and traffic class to use.

Two variables are never set. NCCL_IB_GID_INDEX: a GID's index differs between hosts and moves when a link comes up, and
NCCL finds the right one by itself. NCCL_IB_DISABLE: it silently makes NCCL four times slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.qos import nccl_traffic_class

PINNED = ("NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX")
"""Variables that must not be set: the index they pin is not stable."""


def fabric_environment(
    ports: Sequence[str], rdma: bool, devices: Iterable[str] = (), qos: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the fabric environment of ranks on a host with these ports; empty without a fabric.

    `devices` are the RDMA devices behind the ports as DEVICE:PORT; unless every port has one, none is named.
    """
    if not ports:
        return {}
    return socket_environment(ports[0]) | (rdma_environment(devices, qos) if rdma else {})


def socket_environment(port: str) -> dict[str, str]:
    """Return variables that bind the sockets between ranks to the fabric: to the first rail's port.

    NCCL matches names by prefix unless it gets an exact match with `=`; enp1s0f1np1 would also match enp1s0f1np10,
    and a VLAN on it. The others compare whole names.
    """
    return {
        "NCCL_SOCKET_IFNAME": f"={port}",
        "GLOO_SOCKET_IFNAME": port,
        "TP_SOCKET_IFNAME": port,
        "UCX_NET_DEVICES": port,
        "OMPI_MCA_btl_tcp_if_include": port,
        "MN_IF_NAME": port,
    }


def rdma_environment(devices: Iterable[str], qos: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return the RDMA variables of NCCL.

    Without the list NCCL also tries ports that have no cable. With NCCL_NET a fabric without working RDMA is an error
    instead of a silent fallback to TCP, several times slower.
    """
    listed = list(devices)
    return {
        **({"NCCL_IB_HCA": f"={','.join(listed)}"} if listed else {}),
        **({"NCCL_IB_TC": str(nccl_traffic_class(int(qos["dscp"])))} if qos and qos.get("dscp") is not None else {}),
        "NCCL_NET": "IB",
    }


def device_words(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return RDMA devices as NCCL names them; empty if an entry has no device, as a partial list hides a fault."""
    listed = [
        f"{entry['rdma_device']}:{entry.get('rdma_port') or 1}" if entry.get("rdma_device") else None
        for entry in entries
    ]
    return [word for word in listed if word is not None] if all(listed) else []
