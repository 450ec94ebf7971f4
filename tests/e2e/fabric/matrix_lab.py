# SPDX-License-Identifier: Apache-2.0
"""Sixteen small nodes on one switch, with agents that test paths in rounds or one pair after the other."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from tests.e2e.own_lab import OwnLab
from tests.e2e.support import CHECKOUT

NODES = ("spark0", *(f"bare{index}" for index in range(15)))
PORTS = ("enp1s0f1np1", "enP2p1s0f1np1")
MTU = 9000
AGENT = "/run/firstlight-agent"
TOOLS = ("/usr/bin/iperf3", "/usr/lib/*/libiperf.so*", "/usr/lib/*/libsctp.so*")


def address(node: str, rail: int) -> str:
    return f"192.168.{100 + rail}.{10 + NODES.index(node)}"


def ports_of(node: str) -> list[dict[str, Any]]:
    return [{"port": port, "address": f"{address(node, rail)}/24", "mtu": MTU} for rail, port in enumerate(PORTS)]


def peers_of(node: str, among: Sequence[str] = NODES) -> list[dict[str, Any]]:
    return [
        {"host": other, "port": port, "address": address(other, rail), "mtu": MTU}
        for other in among
        if other != node
        for rail, port in enumerate(PORTS)
    ]


@dataclass
class MatrixLab(OwnLab):
    """The nodes, and the process that leads to the agent on each."""

    agents: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    runs: int = 0

    def on_all(self, script: str) -> None:
        """Run a script on every node; $number is the last part of its addresses."""

        def run(node: str) -> None:
            self.inside(node, f"number={10 + NODES.index(node)}\n{script}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(run, NODES))

    def configure(self) -> None:
        """Configure the ports as the role does; the role itself would take most of the time on sixteen nodes."""
        self.on_all(
            "\n".join(
                f"ip link set {port} mtu {MTU} up; ip addr replace 192.168.{100 + rail}.$number/24 dev {port}\n"
                f"sysctl -qw net.ipv4.conf.{port}.arp_ignore=1 net.ipv4.conf.{port}.arp_announce=2"
                for rail, port in enumerate(PORTS)
            )
        )

    @property
    def ssh(self) -> list[str]:
        return ["ssh", "-F", str(self.lab.directory / "ssh_config"), "-l", "root"]

    def install(self) -> None:
        """Install iperf3 by apt on the first node, and copy it from there: quicker than apt on all sixteen."""
        first, *others = NODES
        apt = "apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends iperf3"
        self.inside(first, apt)
        packed = subprocess.check_output([*self.ssh, first, f"tar -cPf - {' '.join(TOOLS)}"], timeout=60)

        def copy(node: str) -> None:
            subprocess.run([*self.ssh, node, "tar -xPf - && ldconfig"], input=packed, check=True, timeout=60)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(copy, others))

    def inventory(self) -> str:
        """An inventory of these nodes for the role."""
        path = self.directory / "hosts.yml"
        variables = {
            "ansible_ssh_common_args": f"-F {self.lab.directory}/ssh_config",
            "ansible_control_path": f"{self.directory}/%%h",
            "ansible_user": "root",
            "fabric_network_members": list(NODES),
            "fabric_network_settle": 0,
        }
        hosts = {
            node: {"fabric_network_ports": ports_of(node), "fabric_network_peers": peers_of(node)} for node in NODES
        }
        path.write_text(json.dumps({"cluster": {"hosts": hosts, "vars": variables}}))
        return str(path)

    def start_agents(self) -> None:
        """Start a process on every node that has the product's code and waits for orders."""
        package = "ansible_collections/firstlight/cluster/plugins/module_utils"
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(CHECKOUT / "plugins/module_utils", package, filter=_without_caches)
            archive.add(CHECKOUT / "tests/e2e/fabric/matrix/agent.py", "agent.py")
        ssh = self.ssh

        def start(node: str) -> None:
            unpack = [*ssh, node, f"mkdir -p {AGENT} && tar -C {AGENT} -xf -"]
            subprocess.run(unpack, input=packed.getvalue(), check=True, timeout=60)
            self.agents[node] = subprocess.Popen(
                [*ssh, node, f"cd {AGENT} && exec python3 -B agent.py"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(start, NODES))
        for agent in self.agents.values():
            assert agent.stdout is not None
            assert agent.stdout.readline() == "ready\n"

    def test(self, among: Sequence[str], count: int = 2, amount: int = 0) -> list[dict[str, Any]]:
        """Let these nodes test all their paths in rounds; the result of every path."""
        self.runs += 1
        for node in among:
            order = {
                "host": node,
                "run": str(self.runs),
                "members": list(among),
                "ports": ports_of(node),
                "peers": peers_of(node, among),
                "count": count,
                "amount": amount,
            }
            stdin = self.agents[node].stdin
            assert stdin is not None
            stdin.write(json.dumps(order) + "\n")
            stdin.flush()
        found = []
        for node in among:
            stdout = self.agents[node].stdout
            assert stdout is not None
            found += [{"host": node, **path} for path in json.loads(stdout.readline())]
        return found

    def in_rounds(self, **how: int) -> tuple[list[dict[str, Any]], float]:
        """All pairs in rounds, and how many seconds that took."""
        began = time.monotonic()
        return self.test(NODES, **how), time.monotonic() - began

    def one_by_one(self, **how: int) -> tuple[list[dict[str, Any]], float]:
        """The same tests of the same pairs, one pair after the other."""
        began = time.monotonic()
        found = [path for pair in combinations(NODES, 2) for path in self.test(pair, **how)]
        return found, time.monotonic() - began

    def stop(self) -> None:
        for agent in self.agents.values():
            if agent.stdin is not None:
                agent.stdin.close()
            agent.wait(timeout=20)
            if agent.stdout is not None:
                agent.stdout.close()
        self.agents.clear()


def _without_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in entry.name else entry
