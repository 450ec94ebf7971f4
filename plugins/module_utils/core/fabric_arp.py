# SPDX-License-Identifier: Apache-2.0
"""Rails that share one broadcast domain: every port answers ARP for its own address only.

The twin ports of a card are usually on one cable and one VLAN, each with a subnet of its own. By default Linux answers
on any port for any address of the host, so peers learn the twin's MAC for an address: packets of one rail arrive on the
other, at half the width, and RDMA drops them, as their GID is not that port's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .host_settings import keeps
from .state import root_file

LEDGER = "/var/lib/firstlight/fabric_network/ledger.json"
SYSCTL_FILE = "/etc/sysctl.d/zz-firstlight-fabric.conf"
_SETTINGS = {"arp_ignore": "1", "arp_announce": "2"}
"""Answer only on the port that has the address; ask with the address of the port that asks."""


def arp_state(ports: Iterable[str]) -> dict[str, Any]:
    """Kernel settings and their file for these ports; udev applies the file whenever a port appears."""
    # In a key of sysctl a dot separates, so that a port with one in its name cannot be named there.
    named = [port for port in ports if "." not in port]
    sysctl = {f"net.ipv4.conf.{port}.{name}": value for port in named for name, value in _SETTINGS.items()}
    if not sysctl:
        return {}
    text = "# Managed by Firstlight (role fabric_network): changes here are overwritten.\n"
    text += "".join(f"{key} = {value}\n" for key, value in sysctl.items())
    state: dict[str, Any] = {"files": {SYSCTL_FILE: root_file(text)}, "sysctl": sysctl}
    # What was set for a port that is no rail any more is given back.
    return {**state, "ledgers": {LEDGER: {"keeps": keeps(state)}}}
