# SPDX-License-Identifier: Apache-2.0
"""Three nodes of which two are a cluster at first, and the truth about them, read without the product's help."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from conftest import CHECKOUT, RECAP

from firstlight.lab.cache import Cache, default_root
from firstlight.lab.cluster import Lab
from firstlight.lab.first_touch import serial

NAME = "grow9"
NODES = {"node1": "spark0", "node2": "spark1", "node3": "spark2"}
"""Hosts of the inventory, and the lab's names for them."""
NEW = "node3"
RAY, SERVER = "firstlight-ray.service", "firstlight-server.service"
SERVING = {"node1": (RAY, SERVER), "node2": (RAY,)}
UNIT = """[Unit]
Description=Stands for what serves
[Service]
ExecStart=/usr/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""
SETTINGS = {
    "firstlight_catalog": ["{{ lab_directory }}/catalog", str(CHECKOUT / "tests/e2e/repin/catalog")],
    # Deep enough to be spread over any of these numbers of nodes; nobody loads it.
    "firstlight_model": "deep",
    "firstlight_serving": {
        "tensor_parallel": 1,
        "pipeline_parallel": "{{ groups['cluster'] | length }}",
        "max_model_len": 256,
        "listen": "127.0.0.1",
        "port": 8000,
    },
    "firstlight_firewall": {"enabled": True},
    # Whether a path is there is what is asked here, not how fast it is.
    "fabric_network_bandwidth": False,
}

# What a run could have changed on a node, and what must go on: asked of the kernel, systemd and the disk.
READ = r"""
import hashlib, json, os, subprocess, sys
def say(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True).stdout
files = {}
for root in ("/etc", "/usr/local", "/var/lib/firstlight"):
    for place, _, names in os.walk(root):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
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
class Truth:
    """A node, by its own tools."""

    boot: float
    units: dict[str, str]
    files: dict[str, str]
    packages: str
    rules: str
    links: str

    def changed_since(self, before: Truth) -> set[str]:
        """The files that are others by now."""
        return {path for path in {*self.files, *before.files} if self.files.get(path) != before.files.get(path)}


@dataclass(frozen=True)
class Run:
    """A finished command."""

    status: int
    output: str

    @property
    def changed(self) -> dict[str, int]:
        return {match[1]: int(match[3]) for match in RECAP.finditer(self.output)}

    @property
    def words(self) -> str:
        return " ".join(self.output.split())


@dataclass
class GrowLab:
    """The lab and the inventory of it."""

    directory: Path
    lab: Lab = field(default_factory=lambda: Lab(Cache(default_root()), NAME, lambda _: None))
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join([str(CHECKOUT / ".venv/bin"), os.environ["PATH"]])
        env = {key: value for key, value in os.environ.items() if key != "SSH_AUTH_SOCK"}
        return {**env, "PATH": path, "FIRSTLIGHT_LAB": NAME, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "400"}

    def command(self, *words: str, check: bool = True) -> Run:
        began = time.monotonic()
        done = subprocess.run(
            words,
            cwd=CHECKOUT,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=900,
        )
        self.seconds[" ".join(words[:3])] = round(time.monotonic() - began, 1)
        print(f"{time.monotonic() - began:7.1f} s  {' '.join(words)}: status {done.returncode}")
        assert not check or done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-8000:]}"
        return Run(done.returncode, done.stdout)

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
            # The keys are those that `firstlight bootstrap` pins beside the inventory, not the lab's own.
            "ansible_ssh_common_args": f"-F {lab}/ssh_config -o UserKnownHostsFile={self.known_hosts}",
            "ansible_control_path": f"{lab}/%%h",
        }
        (variables / "own.yml").write_text(yaml.safe_dump({**SETTINGS, **place}))
        self.known_hosts.write_text((self.lab.directory / "known_hosts").read_text())

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def address(self, host: str) -> str:
        return next(str(one["address"]) for one in self.lab.record()["nodes"] if one["name"] == NODES[host])

    def pin(self, host: str, number: str) -> dict[str, Any]:
        """What `firstlight bootstrap` says of a machine that is to replace another, with this serial in its list."""
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

    def inside(self, host: str, script: str) -> str:
        return self.lab.engine().docker("exec", self.lab.container(NODES[host]), "sh", "-ec", script)

    def serve(self, host: str, *units: str) -> None:
        """Give a node units that keep running as the real ones do."""
        script = [f"printf '%s' '{UNIT}' > /etc/systemd/system/{unit}" for unit in units]
        self.inside(host, "\n".join([*script, "systemctl daemon-reload", f"systemctl enable --now {' '.join(units)}"]))

    def truth(self, host: str) -> Truth:
        command = ["python3", "-c", READ, *SERVING.get(host, ())]
        return Truth(**json.loads(self.lab.engine().docker("exec", self.lab.container(NODES[host]), *command)))

    def truths(self) -> dict[str, Truth]:
        return {host: self.truth(host) for host in SERVING}

    def reaches(self, host: str, number: int) -> bool:
        """Whether a full frame gets through to a node's first rail."""
        script = f"ping -c 1 -W 2 -M do -s 8972 192.168.100.{number} > /dev/null && echo yes || true"
        return self.inside(host, script).strip() == "yes"

    def sticker(self, machine: int) -> str:
        return serial(NODES[NEW], machine)
