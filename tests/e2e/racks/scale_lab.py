# SPDX-License-Identifier: Apache-2.0
"""Several racks on one machine: a lab, its inventory, and measured runs over it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.e2e.own_lab import OwnLab
from tests.e2e.racks.measure import Measured, measured
from tests.e2e.support import CHECKOUT

FEWEST_IN_A_RACK, MOST_IN_A_RACK = 2, 8
ADDRESSES = 16  # of each rack, on every rail
LINKS = {"group_vars/all": "tests/e2e/racks/scale/group_vars/all", "paths": "inventory/lab/paths"}
ACCESSES = ("Accepted publickey", "Invoked with")


def racks_of(hosts: int) -> dict[str, int]:
    """This many hosts in at least two racks of equal size, with at most eight in each."""
    size = min(MOST_IN_A_RACK, hosts // 2)
    if size < FEWEST_IN_A_RACK or hosts % size:
        raise ValueError(f"FIRSTLIGHT_SCALE_HOSTS is {hosts}; expected 4, 6, or a multiple of 8: racks are alike")
    return {chr(ord("a") + number): size for number in range(hosts // size)}


@dataclass
class Floor(OwnLab):
    """The racks by name, with the number of nodes in each."""

    racks: dict[str, int] = field(default_factory=dict)

    @property
    def hosts(self) -> list[str]:
        return [host for rack in self.racks for host in self.hosts_of(rack)]

    def hosts_of(self, rack: str) -> list[str]:
        return [f"spark-{rack}{position}" for position in range(1, self.racks[rack] + 1)]

    @property
    def lab_options(self) -> list[str]:
        return [word for rack, count in self.racks.items() for word in ("--rack", f"{rack}={count}")]

    def inventory(self, racks: dict[str, int]) -> str:
        """The inventory of some of the racks, as its operator would write it."""
        directory = self.directory / "-".join(racks)
        (directory / "group_vars").mkdir(parents=True, exist_ok=True)
        for name, target in LINKS.items():
            link = directory / name
            if not link.exists():
                link.symlink_to(CHECKOUT / target)
        entries = [
            {
                "name": rack,
                "prefix": f"spark-{rack}",
                "count": count,
                "hardware": "gb10",
                "fabric": self._addresses(rack),
                **({"head": 1} if rack == min(racks) else {}),
            }
            for rack, count in racks.items()
        ]
        document = {"plugin": "firstlight.cluster.rack", "racks": entries}
        (directory / "rack.yml").write_text(json.dumps(document))  # JSON is YAML
        return str(directory)

    def _addresses(self, rack: str) -> str:
        """The same range in every inventory: all racks are on one switch."""
        first = 10 + list(self.racks).index(rack) * ADDRESSES
        return f"{first}-{first + ADDRESSES - 1}"

    def playbook(self, path: str, racks: dict[str, int], *arguments: str) -> Measured:
        argv = ("ansible-playbook", path, "-i", self.inventory(racks), *arguments)
        return measured(argv, CHECKOUT, self.env, timeout=3600)

    def accesses(self) -> dict[str, int]:
        """The number of logins and module runs in the journal of each host.

        Both are counted: a connection that an earlier run left open needs no login.
        """
        command = ("journalctl", "--no-pager", "-o", "cat")
        engine, counted = self.lab.engine(), {}
        for host in self.hosts:
            text = engine.docker("exec", self.lab.container(host), *command)
            counted[host] = sum(text.count(mark) for mark in ACCESSES)
        return counted
