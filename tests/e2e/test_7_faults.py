# SPDX-License-Identifier: Apache-2.0
"""A fabric in which something is wrong. Each run ends with the one line that says what, and with every node reachable.

The tests share four nodes that have a fabric and nothing else, and follow each other.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import CHECKOUT

NAME = "faults"
NODES = ("bare0", "bare1", "bare2", "bare3")
RAIL, TWIN = "enp1s0f1np1", "enP2p1s0f1np1"
OTHER_CAGE = "enp1s0f0np0"
NETPLAN = "/etc/netplan/40-cx7.yaml"
FABRIC = ("playbooks/plan.yml", "playbooks/observe.yml", "playbooks/fabric.yml")
CHANGE = "/var/lib/firstlight/netplan/undo"
LET_THROUGH = (
    *("-e", "fabric_network_apply_others=true"),
    *("-e", "fabric_network_timeout=5", "-e", "fabric_network_confirm_timeout=15"),
)
PROOF = "/var/lib/firstlight/fabric.proof"
UNITS = "/etc/systemd/system/firstlight-netplan-undo.*"


@dataclass(frozen=True)
class Run:
    """A finished ansible-playbook."""

    status: int
    output: str

    def line(self, *words: str) -> str:
        """The one line that says all of these words."""
        flat = re.sub(r"\x1b\[[0-9;]*m", "", self.output)
        found = [line for line in flat.splitlines() if all(word in line for word in words)]
        assert found, f"no line says {words}:\n{flat[-6000:]}"
        return found[0]


class Rack:
    """Four nodes and the switch between them."""

    def command(self, *argv: str, check: bool = True) -> Run:
        env = {**os.environ, "FIRSTLIGHT_LAB": NAME, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "400"}
        env["PATH"] = f"{CHECKOUT / '.venv/bin'}{os.pathsep}{env['PATH']}"
        done = subprocess.run(
            argv,
            cwd=CHECKOUT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert not check or done.returncode == 0, f"{shlex.join(argv)}\n{done.stdout[-6000:]}"
        return Run(done.returncode, done.stdout)

    def fabric(self, *arguments: str) -> Run:
        """Bring the fabric up, and prove it where it was touched."""
        return self.command("ansible-playbook", *FABRIC, "-i", "tests/e2e/faults/inventory", *arguments, check=False)

    def verify(self) -> Run:
        """Look, and change nothing. These nodes have no driver and no engine, so it never ends well."""
        return self.command("ansible-playbook", "playbooks/verify.yml", "-i", "tests/e2e/faults/inventory", check=False)

    def node(self, name: str, script: str) -> str:
        return self.command("firstlight", "lab", "ssh", name, script).output.strip()

    def switch(self, *arguments: str) -> None:
        self.command("firstlight", "lab", "fabric", *arguments)


@pytest.fixture(scope="module")
def rack() -> Iterator[Rack]:
    made = Rack()
    try:
        made.command("firstlight", "lab", "up", "--nodes", "0", "--bare", str(len(NODES)))
        run = made.fabric()
        assert run.status == 0, run.output[-6000:]
        yield made
    finally:
        made.command("firstlight", "lab", "down", "--name", NAME)


@contextmanager
def broken(rack: Rack, repair: Callable[[], Any]) -> Iterator[None]:
    """Whatever comes of the fault, the nodes are there."""
    try:
        yield
        for node in NODES:
            assert rack.node(node, "hostname").endswith(node)
    finally:
        repair()


def assert_mended(rack: Rack) -> None:
    run = rack.fabric()
    assert run.status == 0, run.output[-6000:]
    for number, node in enumerate(NODES, start=10):
        for port, subnet in ((RAIL, "192.168.100"), (TWIN, "192.168.101")):
            shown = rack.node(node, f"ip -4 -o addr show {port}; ip link show {port}")
            assert f"inet {subnet}.{number}/24 " in shown
            assert "mtu 9000 " in shown


def assert_nothing_half_done(rack: Rack, node: str) -> None:
    assert rack.node(node, f"ls -d {CHANGE} {UNITS} 2>/dev/null; ls -A /etc/netplan | grep '^[.]'; true") == ""


def proofs(rack: Rack) -> list[str]:
    """When each node's proof of the fabric was written; nothing where it has none."""
    return [rack.node(node, f"stat -c %Y {PROOF} 2>/dev/null || true") for node in NODES]


@pytest.mark.thorough  # Molecule: fabric_network
def test_a_switch_without_jumbo_frames(rack: Rack) -> None:
    """Nothing was proven yet; a proof that failed is made again by the next run, and one that passed is kept."""
    with broken(rack, lambda: rack.switch("--mtu", "9000")):
        for node in NODES:
            rack.node(node, f"rm {PROOF}")
        rack.switch("--mtu", "1500")
        run = rack.fabric()
        assert run.status != 0
        run.line("jumbo", "9216")
        assert proofs(rack) == [""] * len(NODES)
    assert_mended(rack)
    assert all(proofs(rack))


def test_a_switch_port_without_jumbo_frames(rack: Rack) -> None:
    with broken(rack, lambda: rack.switch("--node", "bare2", "--port", RAIL, "--mtu", "9000")):
        rack.switch("--node", "bare2", "--port", RAIL, "--mtu", "1500")
        rack.verify().line(f"to and from bare2 on {RAIL} at most 1500-byte packets", "switch port MTU of bare2", "9216")


def test_a_rail_that_is_down(rack: Rack) -> None:
    with broken(rack, lambda: rack.switch("--node", "bare1", "--port", TWIN, "--up")):
        rack.switch("--node", "bare1", "--port", TWIN, "--down")
        rack.verify().line("bare1", TWIN, "carrier")


def test_an_address_that_two_hosts_have(rack: Rack) -> None:
    with broken(rack, lambda: rack.node("bare2", f"ip addr del 192.168.100.11/32 dev {RAIL}")):
        rack.node("bare2", f"ip addr add 192.168.100.11/32 dev {RAIL}")
        rack.verify().line("192.168.100.11", "bare1", "bare2")


def test_a_wrong_subnet_mask_and_a_node_at_1500_are_named_and_mended_by_the_next_run(rack: Rack) -> None:
    with broken(rack, lambda: assert_mended(rack)):
        rack.node("bare2", f"ip addr del 192.168.100.12/24 dev {RAIL}; ip addr add 192.168.100.12/30 dev {RAIL}")
        rack.verify().line("bare2", RAIL, "192.168.100.12/30", "192.168.100.12/24")
        rack.node("bare1", f"ip link set {TWIN} mtu 1500")
        rack.verify().line("bare1", TWIN, "MTU", "1500", "9000")


def test_a_hand_written_file_is_named_and_left_alone(rack: Rack) -> None:
    path = "/etc/netplan/60-by-hand.yaml"
    text = f"network:\\n  ethernets:\\n    {RAIL}:\\n      addresses: [10.77.0.1/24]\\n"
    before = rack.node("bare0", f"cat {NETPLAN}")
    with broken(rack, lambda: rack.node("bare0", f"rm -f {path}")):
        # Nothing is applied, and so nothing is refused, unless there is something to do.
        rack.node("bare0", f"printf '{text}' > {path}; chmod 600 {path}; ip link set {RAIL} mtu 1500")
        rack.fabric().line(path, RAIL, "10.77.0.1/24", "nothing was changed")
        assert rack.node("bare0", f"cat {NETPLAN}") == before
        assert "10.77.0.1" in rack.node("bare0", f"cat {path}")


@pytest.mark.thorough  # Molecule: fabric_network
def test_a_file_that_would_cut_the_management_network(rack: Rack) -> None:
    """Refused where it can be seen. Let through, it cuts the line, and the node comes back by itself."""
    path, good = "/etc/netplan/50-management.yaml", "/root/management"
    management = rack.node("bare2", "ip -4 -o addr show eth0").split()[3]
    before = rack.node("bare2", f"cat {NETPLAN} {path}")

    def repair() -> None:
        rack.node("bare2", f"cp -p {good} {path} && netplan apply")
        assert_mended(rack)

    with broken(rack, repair):
        rack.node("bare2", f"cp -p {path} {good}; sed -i s,{management},10.99.0.1/24, {path}")
        rack.node("bare2", f"ip link set {RAIL} mtu 1500")
        rack.fabric().line(path, "eth0", "10.99.0.1/24", "nothing was changed")
        run = rack.fabric(*LET_THROUGH)
        assert run.status != 0
        run.line("by itself", NETPLAN, "controller")
        assert management in rack.node("bare2", "ip -4 -o addr show eth0")
        assert_nothing_half_done(rack, "bare2")
        assert rack.node("bare2", f"cat {NETPLAN} {good}") == before


def test_a_cable_in_the_other_cage(rack: Rack) -> None:
    with broken(rack, lambda: rack.switch("--node", "bare2", "--cage", "1")):
        # As DGX OS has its ports: up, whether or not anything is plugged in.
        rack.node("bare2", f"ip link set {OTHER_CAGE} up")
        rack.switch("--node", "bare2", "--cage", "0")
        rack.fabric().line("bare2", RAIL, f"{OTHER_CAGE} (cage 0) has one", "move the cable to the other cage")
