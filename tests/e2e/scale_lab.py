# SPDX-License-Identifier: Apache-2.0
"""A floor of racks on one machine: a lab, its inventory, and runs over it that are measured."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from conftest import CHECKOUT
from scale_measure import Measured, measured

from firstlight.lab.cache import Cache, default_root
from firstlight.lab.cluster import Lab

NAME = "scale"
FEWEST_IN_A_RACK, MOST_IN_A_RACK = 2, 8
ADDRESSES = 16  # of each rack, on every rail
LINKS = {"group_vars/all": "tests/e2e/scale/group_vars/all", "whereabouts": "inventory/lab/whereabouts"}
TOUCHES = ("Accepted publickey", "Invoked with")


def racks_of(hosts: int) -> dict[str, int]:
    """So many hosts in racks of up to eight, and always in several."""
    size = min(MOST_IN_A_RACK, hosts // 2)
    if size < FEWEST_IN_A_RACK or hosts % size:
        raise ValueError(f"FIRSTLIGHT_SCALE_HOSTS is {hosts}; expected 4, 6, or a multiple of 8: racks are alike")
    return {chr(ord("a") + number): size for number in range(hosts // size)}


@dataclass
class Floor:
    """The racks, by name, with how many nodes each has."""

    racks: dict[str, int]
    directory: Path
    lab: Lab = field(default_factory=lambda: Lab(Cache(default_root()), NAME, lambda _: None))

    @property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join([str(CHECKOUT / ".venv/bin"), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "FIRSTLIGHT_LAB": NAME, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "400"}

    @property
    def hosts(self) -> list[str]:
        return [host for rack in self.racks for host in self.of(rack)]

    def of(self, rack: str) -> list[str]:
        return [f"spark-{rack}{position}" for position in range(1, self.racks[rack] + 1)]

    def command(self, *words: str, timeout: float = 3600) -> Measured:
        return measured(words, CHECKOUT, self.env, timeout)

    def up(self) -> None:
        asked = [word for rack, count in self.racks.items() for word in ("--rack", f"{rack}={count}")]
        done = self.command("firstlight", "lab", "up", *asked)
        assert done.status == 0, done.output[-4000:]

    def inventory(self, racks: dict[str, int] | None = None) -> str:
        """The inventory of these racks, or of some of them, as its operator would write it."""
        chosen = racks or self.racks
        directory = self.directory / f"{len(chosen)}x{max(chosen.values())}"
        (directory / "group_vars").mkdir(parents=True, exist_ok=True)
        for name, place in LINKS.items():
            link = directory / name
            if not link.exists():
                link.symlink_to(CHECKOUT / place)
        entries = [
            {
                "name": rack,
                "prefix": f"spark-{rack}",
                "count": count,
                "hardware": "gb10",
                "fabric": self._addresses(rack),
                **({"head": 1} if rack == min(chosen) else {}),
            }
            for rack, count in chosen.items()
        ]
        document = {"plugin": "firstlight.cluster.rack", "racks": entries}
        (directory / "rack.yml").write_text(json.dumps(document))  # which is YAML
        return str(directory)

    def _addresses(self, rack: str) -> str:
        """Its own in every inventory: all racks are on one switch."""
        first = 10 + list(self.racks).index(rack) * ADDRESSES
        return f"{first}-{first + ADDRESSES - 1}"

    def prepare(self, *arguments: str, racks: dict[str, int] | None = None) -> Measured:
        return self.command("ansible-playbook", "playbooks/prepare.yml", "-i", self.inventory(racks), *arguments)

    def touches(self) -> dict[str, int]:
        """How often somebody logged in to each node or ran a module there, by the node's own journal.

        Both are counted: a connection that an earlier run left open needs no login.
        """
        engine = self.lab.engine()
        counted = {}
        for host in self.hosts:
            text = engine.docker("exec", self.lab.container(host), "journalctl", "--no-pager", "-o", "cat", check=False)
            counted[host] = sum(text.count(mark) for mark in TOUCHES)
        return counted
