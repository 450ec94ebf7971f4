# SPDX-License-Identifier: Apache-2.0
"""Sixteen small nodes on one switch, and agents on them that test paths together or one pair after the other."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from conftest import CHECKOUT

from firstlight.lab.cache import Cache, default_root
from firstlight.lab.cluster import Lab

NAME = "m16"
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
class MatrixLab:
    """The rack."""

    directory: Path
    lab: Lab = field(default_factory=lambda: Lab(Cache(default_root()), NAME, lambda _: None))
    agents: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    runs: int = 0

    @property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join([str(CHECKOUT / ".venv/bin"), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "FIRSTLIGHT_LAB": NAME, "ANSIBLE_NOCOLOR": "1"}

    def command(self, *words: str, fails: bool = False) -> str:
        done = subprocess.run(
            words, cwd=CHECKOUT, env=self.env, capture_output=True, text=True, check=False, timeout=600
        )
        assert (done.returncode != 0) == fails, f"{' '.join(words)}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"
        return done.stdout

    def on_all(self, script: str) -> None:
        """A script on every node; $number is the last part of its addresses."""
        engine = self.lab.engine()

        def run(node: str) -> None:
            words = f"number={10 + NODES.index(node)}\n{script}"
            engine.docker("exec", self.lab.container(node), "sh", "-ec", words)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(run, NODES))

    def configure(self) -> None:
        """Ports as the role leaves them, which other tests prove; on sixteen nodes it would take most of the time."""
        self.on_all(
            "\n".join(
                f"ip link set {port} mtu {MTU} up; ip addr replace 192.168.{100 + rail}.$number/24 dev {port}\n"
                f"sysctl -qw net.ipv4.conf.{port}.arp_ignore=1 net.ipv4.conf.{port}.arp_announce=2"
                for rail, port in enumerate(PORTS)
            )
        )

    @property
    def ssh(self) -> list[str]:
        return ["ssh", "-F", str(default_root() / "labs" / NAME / "ssh_config"), "-l", "root"]

    def install(self) -> None:
        """iperf3 on every node: by apt on the first, and from there on the others, which is quicker sixteen times."""
        first, *others = NODES
        apt = "apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends iperf3"
        self.lab.engine().docker("exec", self.lab.container(first), "sh", "-ec", apt)
        packed = subprocess.check_output([*self.ssh, first, f"tar -cPf - {' '.join(TOOLS)}"], timeout=60)

        def copy(node: str) -> None:
            subprocess.run([*self.ssh, node, "tar -xPf - && ldconfig"], input=packed, check=True, timeout=60)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(copy, others))

    def inventory(self) -> str:
        """An inventory of these nodes for the role."""
        path = self.directory / "hosts.yml"
        directory = default_root() / "labs" / NAME
        variables = {
            "ansible_ssh_common_args": f"-F {directory}/ssh_config",
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
        """Put the product's code on every node, and a process that waits for orders."""
        package = "ansible_collections/firstlight/cluster/plugins/module_utils"
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(CHECKOUT / "plugins/module_utils", package, filter=_without_caches)
            archive.add(CHECKOUT / "tests/e2e/matrix/agent.py", "agent.py")
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
        """Let these nodes test all their paths, in rounds; what they saw."""
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
        """All pairs in rounds, with the seconds it took."""
        began = time.monotonic()
        return self.test(NODES, **how), time.monotonic() - began

    def one_by_one(self, **how: int) -> tuple[list[dict[str, Any]], float]:
        """The same tests of the same pairs, each pair when the one before it is done."""
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
