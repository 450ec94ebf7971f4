# SPDX-License-Identifier: Apache-2.0
"""Eight machines as they are delivered, taken to a proven fabric by the commands of docs/new-rack.md, in their order.

Every command is recorded in build/arrive-record.json. Only names are put in the place of the page's: port, files, key,
and where the password comes from.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT, Cluster, Outcome

from firstlight.lab.cache import Cache, default_root
from firstlight.lab.cluster import Lab
from firstlight.lab.first_touch import PASSWORD, USER, serial

pytestmark = pytest.mark.racks

NAME = "arrive"
NODES = tuple(f"bare{number}" for number in range(8))
HOSTS = tuple(f"spark{number}" for number in range(1, 9))
PROOF = "/var/lib/firstlight/fabric.proof"
RECORD = CHECKOUT / "build" / "arrive-record.json"
PAGE = (CHECKOUT / "docs" / "new-rack.md").read_text(encoding="utf-8")
LOOK, READ, TOUCH, INIT, PLAN, PREPARE = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)


@dataclass
class Arrival:
    """The machines, the operator's files, and what was done."""

    directory: Path
    checkout: Cluster
    lab: Lab = field(default_factory=lambda: Lab(Cache(default_root()), NAME, lambda _: None))
    record: list[dict[str, Any]] = field(default_factory=list)

    @property
    def inventory(self) -> Path:
        return self.directory / "inventory"

    @property
    def key(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def addresses(self) -> dict[str, str]:
        return {node["name"]: node["address"] for node in self.lab.record()["nodes"]}

    def run(self, command: str, timeout: float = 600) -> Outcome:
        return self.checkout.run(command, timeout, {"FIRSTLIGHT_LAB": NAME, "SSH_AUTH_SOCK": ""})

    def follow(self, command: str) -> Outcome:
        """A command of the page with the names of this lab, recorded."""
        names = {
            "eth1": self._interface(),
            "inventory/mine": str(self.inventory),
            "--fingerprints fingerprints": f"--fingerprints {self.directory / 'fingerprints'}",
            "nodes.yml": str(self.directory / "nodes.yml"),
            "pass show nodes": f"cat {self.lab.directory / PASSWORD}",
            f"--user {USER}": f"--user {USER} --key {self.key}.pub",
        }
        for theirs, ours in names.items():
            command = command.replace(theirs, ours)
        outcome = self.run(command, timeout=1200)
        self.record.append(
            {
                "command": command,
                "seconds": round(outcome.seconds, 1),
                "status": outcome.status,
                "last": outcome.output.rstrip().splitlines()[-10:],
            }
        )
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(self.record, indent=2) + "\n", encoding="utf-8")
        assert outcome.status == 0, f"{command}\n{outcome.output[-6000:]}"
        return outcome

    def on_every_node(self, script: str) -> list[str]:
        """What somebody at the console of each node does, as root."""
        engine = self.lab.engine()
        with ThreadPoolExecutor(4) as pool:
            return list(
                pool.map(lambda node: engine.docker("exec", self.lab.container(node), "sh", "-c", script), NODES)
            )

    def fingerprints(self) -> dict[str, str]:
        """Address -> key, as the labels of the machines say."""
        keys = self.lab.directory / "keys"
        words = {
            node: subprocess.check_output(["ssh-keygen", "-lf", str(keys / f"{node}_ed25519.pub")], text=True).split()
            for node in NODES
        }
        return {self.addresses[node]: found[1] for node, found in words.items()}

    def _interface(self) -> str:
        gateway = next(iter(self.addresses.values())).rpartition(".")[0] + ".1"
        for entry in json.loads(subprocess.check_output(["ip", "-j", "addr"], text=True)):
            if any(info.get("local") == gateway for info in entry["addr_info"]):
                return str(entry["ifname"])
        raise AssertionError(f"no interface has {gateway}")


@pytest.fixture(scope="module")
def arrival(tmp_path_factory: pytest.TempPathFactory, checkout: Cluster, results: dict[str, Any]) -> Iterator[Arrival]:
    made = Arrival(tmp_path_factory.mktemp("arrive"), checkout)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(made.key)], check=True)
    try:
        up = made.run(f".venv/bin/firstlight lab up --first-touch --nodes 0 --bare {len(NODES)}")
        assert up.status == 0, up.output
        yield made
        results["eight bare nodes: lab up, seconds"] = round(up.seconds, 1)
        results["eight bare nodes: from the first look to a proven fabric, seconds"] = round(
            sum(step["seconds"] for step in made.record[:6]), 1
        )
    finally:
        down = made.run(f".venv/bin/firstlight lab down --name {NAME}")
        assert down.status == 0, down.output


def test_keys_that_nobody_knows_are_shown_and_nobody_is_logged_in(arrival: Arrival) -> None:
    output = arrival.follow(LOOK).output
    for address, fingerprint in arrival.fingerprints().items():
        (line,) = [line for line in output.splitlines() if line.startswith(f"{address} ")]
        assert f"{fingerprint} (unknown)" in line
    assert "Nobody was logged in at" in output
    assert not arrival.inventory.exists()
    assert set(arrival.on_every_node("command -v docker nvidia-smi; ls /root/.ssh 2> /dev/null; true")) == {""}


def test_they_are_read_and_taken_over(arrival: Arrival) -> None:
    lines = [f"{address} {fingerprint}\n" for address, fingerprint in arrival.fingerprints().items()]
    (arrival.directory / "fingerprints").write_text("".join(lines))
    arrival.follow(READ)
    arrival.follow(TOUCH)
    assert [path.name for path in arrival.inventory.iterdir()] == ["known_hosts"]
    assert [name.strip() for name in arrival.on_every_node("uname -n")] == list(HOSTS)


def plain(value: Any) -> Any:
    """What ansible-inventory says of a word from a file, which it marks as one that is no template."""
    return value["__ansible_unsafe"] if isinstance(value, dict) else value


def test_the_inventory_is_that_of_the_machines_and_plans(arrival: Arrival) -> None:
    arrival.follow(INIT)
    shown = arrival.run(f".venv/bin/ansible-inventory -i {arrival.inventory} --list")
    hosts = json.loads(shown.output)["_meta"]["hostvars"]
    assert {name: plain(one["ansible_host"]) for name, one in hosts.items()} == dict(
        zip(HOSTS, arrival.addresses.values(), strict=True)
    )
    assert [plain(one["firstlight_rack"]["serial"]) for one in hosts.values()] == [serial(node) for node in NODES]
    again = arrival.run(
        f".venv/bin/firstlight init spark8 {arrival.inventory} --nodes {arrival.directory / 'nodes.yml'}"
    )
    assert (again.status, "is not empty, it has group_vars and 1 more" in again.output) == (1, True)
    # What the operator fills in, and what is the lab's own.
    shutil.copy(CHECKOUT / "tests/e2e/arrive/group_vars/cluster.yml", arrival.inventory / "group_vars")
    assert "To supply" not in arrival.follow(PLAN).output


def test_the_fabric_is_proven(arrival: Arrival) -> None:
    outcome = arrival.follow(PREPARE)
    assert set(outcome.recap) == set(HOSTS), outcome.output[-3000:]
    for host, text in zip(HOSTS, arrival.on_every_node(f"cat {PROOF}"), strict=True):
        assert {one["host"] for one in json.loads(text)["proven"]} == set(HOSTS) - {host}
    assert all("GB10" in text for text in arrival.on_every_node("nvidia-smi -L && docker info > /dev/null"))


def test_a_second_run_changes_nothing(arrival: Arrival) -> None:
    outcome = arrival.follow(PREPARE)
    assert {host: counts["changed"] for host, counts in outcome.recap.items()} == dict.fromkeys(HOSTS, 0)


def test_the_password_is_nowhere(arrival: Arrival) -> None:
    password = (arrival.lab.directory / PASSWORD).read_text().strip()
    assert len(json.loads(RECORD.read_text())) == 7
    for path in (RECORD, *(path for path in arrival.directory.rglob("*") if path.is_file())):
        assert password not in path.read_text(), path
