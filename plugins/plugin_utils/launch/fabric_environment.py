# SPDX-License-Identifier: Apache-2.0
"""What programs between hosts are told of the fabric: their sockets' port, their RDMA devices, their traffic class.

Two variables are never set. NCCL_IB_GID_INDEX: a GID's index differs between hosts and moves when a link comes up, and
NCCL finds the right one by itself. NCCL_IB_DISABLE: it is a silent way to be four times slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.qos import nccl_traffic_class

PINNED = ("NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX")
"""Variables that nobody may set: what they pin does not stay where it is."""


def fabric_environment(
    ports: Sequence[str], rdma: bool, devices: Iterable[str] = (), qos: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Everything that ranks on a host with these fabric ports are told; nothing without a fabric.

    `devices` are the RDMA devices behind the ports as DEVICE:PORT; unless every port has one, none is named.
    """
    if not ports:
        return {}
    return socket_environment(ports[0]) | (rdma_environment(devices, qos) if rdma else {})


def socket_environment(port: str) -> dict[str, str]:
    """Keeps the sockets by which ranks find each other on the fabric: the first rail's port.

    NCCL takes a name for the beginning of one unless it is told to be exact; enp1s0f1np1 would also be enp1s0f1np10,
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
    """Without the list NCCL also tries ports that have no cable. With NCCL_NET a fabric without working RDMA is an
    error instead of a silent fall back to TCP, several times slower."""
    listed = list(devices)
    return {
        **({"NCCL_IB_HCA": f"={','.join(listed)}"} if listed else {}),
        **({"NCCL_IB_TC": str(nccl_traffic_class(int(qos["dscp"])))} if qos and qos.get("dscp") is not None else {}),
        "NCCL_NET": "IB",
    }


def device_words(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """RDMA devices as NCCL names them; none where one of the entries has no device, for half a list hides a fault."""
    listed = [
        f"{entry['rdma_device']}:{entry.get('rdma_port') or 1}" if entry.get("rdma_device") else None
        for entry in entries
    ]
    return [word for word in listed if word is not None] if all(listed) else []
