# SPDX-License-Identifier: Apache-2.0
"""Lossless RoCE with the distribution's tools: the settings a port must have, and the names of the units that set it.

A port is set to trust the DSCP of packets, to map a DSCP to a priority, and to pause that priority instead of dropping
its packets (PFC). The switch must be configured to match. Everything here is pure.

How NICs react to ECN marks is not set here: the kernel's own drivers have no switch for it (the vendor's driver package
adds /sys/class/net/PORT/ecn), and it is on in the firmware of NICs that support it. What a host does decide is whether
its packets may be marked at all, by two bits next to the DSCP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..parsers.dcb import PRIORITIES

UNIT = "firstlight-roce-qos@.service"
UNIT_DIRECTORY = "/etc/systemd/system"
ECN_CAPABLE = 0b10
"""ECT(0): a switch may mark the packet when its queue grows."""
DSCP_MOST = 63
RDMA_CM = "/sys/kernel/config/rdma_cm"
"""Where the kernel sets the traffic class of librdmacm's connections, once rdma_cm is loaded."""


@dataclass(frozen=True)
class Qos:
    """The one lossless class: a priority, and the DSCP of its packets."""

    priority: int
    dscp: int

    @property
    def pfc(self) -> tuple[bool, ...]:
        return tuple(number == self.priority for number in range(PRIORITIES))


def nccl_traffic_class(dscp: int) -> int:
    """Return NCCL_IB_TC for a DSCP: the packet's whole traffic class byte, with the bits that allow ECN marks.

    DSCP 26 gives 106. Raises ValueError for an invalid DSCP.
    """
    if isinstance(dscp, bool) or not 0 <= dscp <= DSCP_MOST:
        raise ValueError(f"DSCP is {dscp!r}, expected 0 to {DSCP_MOST}: set dscp to 26, or to what the switch uses")
    return dscp << 2 | ECN_CAPABLE


def checked_qos(values: Mapping[str, Any]) -> Qos | None:
    """Validate a class such as `{priority: 3, dscp: 26}`; None for an empty mapping. Raises ValueError."""
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
    """Return one phrase for each setting of a port that differs; empty if all match."""
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
    """Escape a port's name for the name of a unit, as systemd does: special characters in hexadecimal."""
    plain = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.")
    return "".join(
        one if one in plain and not (index == 0 and one == ".") else "".join(f"\\x{byte:02x}" for byte in one.encode())
        for index, one in enumerate(port)
    )


def instance(port: str) -> str:
    """Return the name of the unit of one port."""
    return UNIT.replace("@", f"@{escape_instance(port)}")
