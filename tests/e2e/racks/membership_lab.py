# SPDX-License-Identifier: Apache-2.0
"""Three nodes of which two are a cluster at first, and the state of a node read without the product's help."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from firstlight_lab.as_delivered import serial
from tests.e2e.own_lab import OwnLab, Run
from tests.e2e.support import CHECKOUT

NODES = {"node1": "spark0", "node2": "spark1", "node3": "spark2"}
"""Hosts of the inventory, and the lab's names of them."""
NEW = "node3"
RAY, SERVER = "firstlight-ray.service", "firstlight-server.service"
SERVING = {"node1": (RAY, SERVER), "node2": (RAY,)}
UNIT = """[Unit]
Description=Stands for a serving process
[Service]
ExecStart=/usr/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""
SETTINGS = {
    "firstlight_catalog": ["{{ lab_directory }}/catalog", str(CHECKOUT / "tests/e2e/repin/catalog")],
    # Deep enough for any of these numbers of pipeline stages; it is never loaded.
    "firstlight_model": "deep",
    # So no hub is asked for it.
    "firstlight_weights_source": "/mnt/models",
    "firstlight_serving": {
        "tensor_parallel": 1,
        "pipeline_parallel": "{{ groups['cluster'] | length }}",
        "max_model_len": 256,
        "listen": "127.0.0.1",
        "port": 290,
    },
    "firstlight_firewall": {"enabled": True},
    # These tests are about whether a path works, not about its throughput.
    "fabric_network_bandwidth": False,
}

# What a run may have changed on a node, and what must keep running: from the kernel, systemd and the disk.
READ_STATE = r"""
import hashlib, json, os, subprocess, sys
def say(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True).stdout
files = {}
for root in ("/etc", "/usr/local", "/var/lib/firstlight"):
    for place, _, names in os.walk(root):
        for name in names:
            path = os.path.join(place, name)
            # A run's lease goes a moment after the run.
            if os.path.isfile(path) and not os.path.islink(path) and name != "lease.json":
                files[path] = hashlib.sha256(open(path, "rb").read()).hexdigest()
json.dump({
    "boot": os.stat("/proc/1").st_mtime,
    "units": {unit: say("systemctl", "show", "-p", "MainPID", "--value", unit).strip() for unit in sys.argv[1:]},
    "files": files,
    "packages": say("dpkg-query", "-W"),
    "rules": say("nft", "list", "ruleset"),
    "links": say("ip", "-br", "addr"),
}, sys.stdout)
"""


@dataclass(frozen=True)
class NodeState:
    """A node, by its own tools."""

    boot: float
    units: dict[str, str]
    files: dict[str, str]
    packages: str
    rules: str
    links: str

    def changed_files(self, before: NodeState) -> set[str]:
        return {path for path in {*self.files, *before.files} if self.files.get(path) != before.files.get(path)}


class MembershipLab(OwnLab):
    """The lab and the inventory of it."""

    def playbook(self, name: str, *words: str, check: bool = True) -> Run:
        return self.command("ansible-playbook", f"playbooks/{name}.yml", "-i", str(self.directory), *words, check=check)

    # -- the inventory ------------------------------------------------------------------------------------------

    def write_rack(self, count: int, serial_of_new: str = "", absent: list[int] | None = None) -> None:
        network = self.lab.record()["network"].rpartition(".")[0]
        rack: dict[str, Any] = {
            "name": "a",
            "prefix": "node",
            "count": count,
            "head": 1,
            "hardware": "gb10",
            "management": f"{network}.10-{network}.41",
            "fabric": "10-41",
            **({"serials": {3: serial_of_new}} if serial_of_new else {}),
            **({"absent": absent} if absent else {}),
        }
        document = {"plugin": "firstlight.cluster.rack", "racks": [rack]}
        (self.directory / "rack.yml").write_text(yaml.safe_dump(document))

    def write_inventory(self) -> None:
        variables = self.directory / "group_vars/all"
        variables.mkdir(parents=True)
        (variables / "lab.yml").symlink_to(CHECKOUT / "inventory/lab/group_vars/all.yml")
        lab = self.lab.directory
        place = {
            "lab_directory": str(lab),
            # The keys that `firstlight bootstrap` pins beside the inventory, in place of the lab's own file.
            "ansible_ssh_common_args": f"-F {lab}/ssh_config -o UserKnownHostsFile={self.known_hosts}",
            "ansible_control_path": f"{lab}/%%h",
        }
        (variables / "own.yml").write_text(yaml.safe_dump({**SETTINGS, **place}))
        self.known_hosts.write_text((self.lab.directory / "known_hosts").read_text())

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def address(self, host: str) -> str:
        return self.addresses[NODES[host]]

    def pin(self, host: str, number: str) -> dict[str, Any]:
        """Pin the key of a replacement with `firstlight bootstrap`, which expects this serial; its outcome."""
        nodes = self.directory / "nodes.yaml"
        nodes.write_text(yaml.safe_dump({"nodes": [{"name": host, "address": self.address(host), "serial": number}]}))
        done = self.command(
            *("firstlight", "bootstrap", "--nodes", str(nodes), "-i", str(self.directory), "--replaces", host),
            *("--accept", host, "--user", "root", "--key", str(self.lab.directory / "id_ed25519.pub"), "--json"),
            check=False,
        )
        nodes.unlink()
        outcome: dict[str, Any] = json.loads(done.output[done.output.index("{") :])["nodes"][0]
        return outcome

    # -- the nodes ----------------------------------------------------------------------------------------------

    def at(self, host: str, script: str) -> str:
        """Run a script as root at the console of a host."""
        return self.inside(NODES[host], script).strip()

    def serve(self, host: str, *units: str) -> None:
        """Give a host units that keep running as the real ones do."""
        script = [f"printf '%s' '{UNIT}' > /etc/systemd/system/{unit}" for unit in units]
        self.at(host, "\n".join([*script, "systemctl daemon-reload", f"systemctl enable --now {' '.join(units)}"]))

    def state(self, host: str) -> NodeState:
        command = ["python3", "-c", READ_STATE, *SERVING.get(host, ())]
        return NodeState(**json.loads(self.lab.engine().docker("exec", self.lab.container(NODES[host]), *command)))

    def states(self) -> dict[str, NodeState]:
        return {host: self.state(host) for host in SERVING}

    def reaches(self, host: str, number: int) -> bool:
        """Whether a full-size packet arrives at the first rail of the host with this number."""
        script = f"ping -c 1 -W 2 -M do -s 8972 192.168.100.{number} > /dev/null && echo yes || true"
        return self.at(host, script) == "yes"

    def serial_of_machine(self, number: int) -> str:
        """The serial of the first machine that is node3, or of the one that replaces it."""
        return serial(NODES[NEW], number)
