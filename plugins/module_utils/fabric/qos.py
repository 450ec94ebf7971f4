# SPDX-License-Identifier: Apache-2.0
"""Lossless RoCE with the distribution's tools: what a port must show, and what the units are called that set it.

A port is told to trust the DSCP of packets, which DSCP belongs to which priority, and which priority is paused rather
than dropped (PFC). The switch must be told the same. All of it is pure.

How NICs answer ECN marks is not set here: the kernel's own drivers have no switch for it (the vendor's driver package
adds /sys/class/net/PORT/ecn), and the firmware of NICs that can do it has it on. What a host does decide is that its
packets may be marked at all, by two bits beside the DSCP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..parsers.dcb import PRIORITIES

UNIT = "firstlight-roce-qos@.service"
UNIT_DIRECTORY = "/etc/systemd/system"
ECN_CAPABLE = 0b10
"""ECT(0): the packet may be marked by a switch whose queue grows."""
DSCP_MOST = 63
RDMA_CM = "/sys/kernel/config/rdma_cm"
"""Where the kernel lets one set the traffic class of connections made through librdmacm, once rdma_cm is loaded."""


@dataclass(frozen=True)
class Qos:
    """The one lossless class: a priority, and the DSCP of the packets that belong to it."""

    priority: int
    dscp: int

    @property
    def pfc(self) -> tuple[bool, ...]:
        return tuple(number == self.priority for number in range(PRIORITIES))


def nccl_traffic_class(dscp: int) -> int:
    """The value of NCCL_IB_TC for a DSCP: the whole byte of the packet, with the bits that allow ECN marks.

    DSCP 26 gives 106. Raises ValueError for what is no DSCP.
    """
    if isinstance(dscp, bool) or not 0 <= dscp <= DSCP_MOST:
        raise ValueError(f"DSCP is {dscp!r}, expected 0 to {DSCP_MOST}: set dscp to 26, or to what the switch uses")
    return dscp << 2 | ECN_CAPABLE


def checked_qos(values: Mapping[str, Any]) -> Qos | None:
    """The class that `{priority: 3, dscp: 26}` asks for, None for an empty mapping; raises ValueError for others."""
    if not values:
        return None
    if set(values) != {"priority", "dscp"}:
        raise ValueError(
            f"fabric_network_qos has {', '.join(sorted(map(str, values)))}, expected priority and dscp: "
            "write {priority: 3, dscp: 26}, or {} for none"
        )
    numbers = {}
    for name, most in (("priority", PRIORITIES - 1), ("dscp", DSCP_MOST)):
        text = str(values[name])
        if not text.isdecimal() or len(text) > 2 or int(text) > most:
            raise ValueError(
                f"fabric_network_qos.{name} is {text[:40]!r}, expected a number from 0 to {most}: "
                "write what the switch is set to, such as {priority: 3, dscp: 26}"
            )
        numbers[name] = int(text)
    return Qos(numbers["priority"], numbers["dscp"])


def qos_problems(qos: Qos, pfc: Sequence[bool] | None, dscp: Mapping[int, int]) -> list[str]:
    """One phrase for each thing that a port does not show as it should; none when it is right."""
    problems = []
    if pfc is None or tuple(pfc) != qos.pfc:
        problems.append(f"PFC is on for {_priorities(pfc)}, expected priority {qos.priority}")
    if dscp.get(qos.dscp) != qos.priority:
        has = f"priority {dscp[qos.dscp]}" if qos.dscp in dscp else "no priority"
        problems.append(f"DSCP {qos.dscp} has {has}, expected priority {qos.priority}")
    return problems


def _priorities(pfc: Sequence[bool] | None) -> str:
    if pfc is None:
        return "unknown priorities"
    on = [str(number) for number, paused in enumerate(pfc) if paused]
    return f"priority {', '.join(on)}" if on else "no priority"


def escape_instance(port: str) -> str:
    """A port's name in the name of a unit: systemd writes what it would take for a separator in hexadecimal."""
    plain = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.")
    return "".join(
        one if one in plain and not (index == 0 and one == ".") else "".join(f"\\x{byte:02x}" for byte in one.encode())
        for index, one in enumerate(port)
    )


def instance(port: str) -> str:
    """The unit of one port."""
    return UNIT.replace("@", f"@{escape_instance(port)}")
