# SPDX-License-Identifier: Apache-2.0
"""Nodes as they are delivered, found and taken to what Ansible needs, with everything that goes wrong on the way."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import CHECKOUT

from firstlight.lab.cache import Cache, default_root
from firstlight.lab.cluster import Lab
from firstlight.lab.first_touch import PASSWORD, USER, serial

NAME = "touch8"
NODES = ("spark0", "bare0", "bare1")
REBOOTS = "#!/bin/sh\nrm -f /usr/local/sbin/visudo\nreboot -ff\nsleep 60\n"


# A host that announces itself, as avahi does: to one question, with its name and address.
ANNOUNCES = """
import socket, struct, sys
own = socket.inet_aton(sys.argv[1])
plug = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
plug.bind(("", 5353))
plug.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("224.0.0.251") + own)
plug.settimeout(60)
_, asker = plug.recvfrom(9000)
name = b"\\x09announced\\x05local\\0"
plug.sendto(struct.pack("!6H", 0, 0x8400, 0, 1, 0, 0) + name + struct.pack("!2HIH", 1, 0x8001, 10, 4) + own, asker)
"""


@dataclass
class Rack:
    """Three nodes that know nothing of us, and the directory in which their keys are pinned."""

    directory: Path
    lab: Lab = field(default_factory=lambda: Lab(Cache(default_root()), NAME, lambda _: None))

    @property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join([str(CHECKOUT / ".venv/bin"), os.environ["PATH"]])
        env = {key: value for key, value in os.environ.items() if key != "SSH_AUTH_SOCK"}
        return {**env, "PATH": path, "FIRSTLIGHT_LAB": NAME, "ANSIBLE_NOCOLOR": "1"}

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def addresses(self) -> dict[str, str]:
        return {node["name"]: node["address"] for node in self.lab.record()["nodes"]}

    @property
    def password(self) -> str:
        return (self.lab.directory / PASSWORD).read_text().strip()

    def lab_command(self, *words: str) -> None:
        done = subprocess.run(["firstlight", "lab", *words], env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def inside(self, node: str, script: str, stdin: str | None = None) -> str:
        """What somebody at the console of a node does, as root."""
        words = ("exec", "-i", self.lab.container(node), "sh", "-ec", script)
        return self.lab.engine().docker(*words, stdin=stdin)

    def interface(self) -> str:
        gateway = next(iter(self.addresses.values())).rpartition(".")[0] + ".1"
        for entry in json.loads(subprocess.check_output(["ip", "-j", "addr"], text=True)):
            if any(info.get("local") == gateway for info in entry["addr_info"]):
                return str(entry["ifname"])
        raise AssertionError(f"no interface has {gateway}")

    def firstlight(self, *words: str, password: bool = True) -> tuple[int, dict[str, Any], str]:
        """A command with --json: its status, its document, and all that it said."""
        login = [
            "--inventory",
            str(self.directory),
            "--user",
            USER,
            "--key",
            str(self.lab.directory / "id_ed25519.pub"),
        ]
        reading, writing = os.pipe()
        os.write(writing, (self.password + "\n").encode())
        os.close(writing)
        given = ["--password-fd", str(reading)] if password else []
        done = subprocess.run(
            ["firstlight", *words, *login, *given, "--json"],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
            pass_fds=[reading],
        )
        os.close(reading)
        said = done.stdout + done.stderr
        assert self.password not in said
        assert done.stdout.startswith("{"), said
        return done.returncode, json.loads(done.stdout), said

    def discover(self, *words: str, password: bool = True) -> tuple[int, dict[str, dict[str, Any]]]:
        addresses = self.addresses
        status, document, _ = self.firstlight(
            "discover", *addresses.values(), "--interface", self.interface(), *words, password=password
        )
        found = {one["address"]: one for one in document["candidates"]}
        return status, {node: found[address] for node, address in addresses.items()}

    def bootstrap(self, *words: str, password: bool = True) -> tuple[int, dict[str, dict[str, Any]]]:
        nodes = str(self.directory / "nodes.yml")
        status, document, _ = self.firstlight("bootstrap", "--nodes", nodes, *words, password=password)
        return status, {one["name"]: one for one in document["nodes"]}

    def write_nodes(self, **changes: dict[str, Any]) -> None:
        """The list of nodes with what is known of them, and some of it wrong."""
        nodes = [
            {"name": name, "address": address, "serial": serial(name), "hardware": "gb10", **changes.get(name, {})}
            for name, address in self.addresses.items()
        ]
        (self.directory / "nodes.yml").write_text(yaml.safe_dump({"nodes": nodes}))

    def set_password(self, node: str, password: str) -> None:
        self.inside(node, "chpasswd", stdin=f"{USER}:{password}\n")


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    made = Rack(tmp_path_factory.mktemp("first-touch"))
    try:
        made.lab_command("up", "--first-touch", "--nodes", "1", "--bare", str(len(NODES) - 1))
        made.write_nodes()
        yield made
    finally:
        made.lab_command("down", "--name", NAME)


def kinds(outcomes: dict[str, dict[str, Any]]) -> dict[str, str | None]:
    return {name: one["fault"] and one["fault"]["kind"] for name, one in outcomes.items()}


def listed_keys(rack: Rack) -> dict[str, str]:
    """The fingerprints on the stickers of the nodes."""
    lines = {
        node: subprocess.check_output(
            ["ssh-keygen", "-lf", str(rack.lab.directory / "keys" / f"{node}_ed25519.pub")], text=True
        )
        for node in NODES
    }
    return {node: line.split()[1] for node, line in lines.items()}


def test_keys_that_nobody_knows_are_shown_and_nobody_is_logged_in(rack: Rack) -> None:
    announcing = ("python3", "-c", ANNOUNCES, rack.addresses["bare0"])
    rack.lab.engine().docker("exec", "-d", rack.lab.container("bare0"), *announcing)
    status, found = rack.discover()
    assert status == 0
    assert {node: one["name"] for node, one in found.items()} == {"spark0": None, "bare0": "announced", "bare1": None}
    assert {node: one["host_key"]["fingerprint"] for node, one in found.items()} == listed_keys(rack)
    assert {one["host_key_state"] for one in found.values()} == {"unknown"}
    assert {one["machine"] for one in found.values()} == {None}
    assert all("ARP" in one["found_by"] and len(one["macs"]) == 1 for one in found.values())
    status, outcomes = rack.bootstrap()
    assert (status, set(kinds(outcomes).values())) == (1, {"host-key-unknown"})
    assert not rack.known_hosts.exists()


def test_two_machines_with_one_address_are_seen(rack: Rack) -> None:
    taken = rack.addresses["bare0"]
    rack.inside("bare1", f"ip addr add {taken}/32 dev eth0")
    try:
        status, found = rack.discover()
        refused = kinds(rack.bootstrap("--interface", rack.interface())[1])
    finally:
        rack.inside("bare1", f"ip addr del {taken}/32 dev eth0")
    (fault,) = found["bare0"]["faults"]
    assert (status, fault["kind"], len(found["bare0"]["macs"])) == (1, "duplicate-address", 2)
    assert found["spark0"]["faults"] == found["bare1"]["faults"] == []
    assert refused == {"spark0": "host-key-unknown", "bare0": "duplicate-address", "bare1": "host-key-unknown"}


def test_listed_keys_are_trusted_and_the_machines_read(rack: Rack) -> None:
    prints = rack.directory / "fingerprints"
    keys = listed_keys(rack)
    prints.write_text("".join(f"{address} {keys[node]}\n" for node, address in rack.addresses.items()))
    written = rack.directory / "found.yml"
    status, found = rack.discover("--fingerprints", str(prints), "--write", str(written))
    assert status == 0, found
    assert {node: one["machine"]["serial"] for node, one in found.items()} == {node: serial(node) for node in NODES}
    assert {one["machine"]["product"] for one in found.values()} == {"NVIDIA DGX Spark"}
    assert {one["machine"]["gpu_count"] for one in found.values()} == {1}
    assert found["spark0"]["hardware"] == "gb10"
    assert set(found["spark0"]["cages"]) == {"0", "1"}
    document = yaml.safe_load(written.read_text())
    assert [(one["name"], one["serial"]) for one in document["nodes"]] == [(node, serial(node)) for node in NODES]
    assert rack.known_hosts.stat().st_mode & 0o777 == 0o600


def test_each_fault_has_its_own_message_and_is_finished_later(rack: Rack) -> None:
    """A wrong password, no sudo, a full disk: three nodes, three messages, and nothing left half done."""
    home = f"/home/{USER}/.ssh"
    rack.set_password("spark0", "another-one")
    rack.inside("bare0", f"gpasswd -d {USER} sudo")
    rack.inside("bare1", f"install -d -o {USER} {home}; mount -t tmpfs -o size=4k,mode=700 none {home}")
    rack.inside("bare1", f"chown {USER} {home}; cat /dev/zero > {home}/full 2> /dev/null || true")
    status, outcomes = rack.bootstrap()
    assert (status, kinds(outcomes)) == (1, {"spark0": "wrong-password", "bare0": "no-sudo", "bare1": "full-disk"}), (
        outcomes
    )
    assert rack.inside("bare1", f"ls -A {home}").split() == ["full"]
    assert outcomes["bare0"]["steps"] == {"key": "changed"}
    rack.set_password("spark0", rack.password)
    rack.inside("bare0", f"gpasswd -a {USER} sudo")
    rack.inside("bare1", f"umount {home}")


def test_a_reboot_in_the_middle_a_changed_key_and_wrong_hardware(rack: Rack, results: dict[str, Any]) -> None:
    """The node that reboots is finished afterwards; nothing is done on the others, whose identity is in doubt."""
    rack.write_nodes(spark0={"serial": "LAB-OTHER"})
    before = rack.known_hosts.read_text()
    other = (rack.lab.directory / "id_ed25519.pub").read_text().split()[1]
    mine = rack.addresses["bare1"]
    lines = [line for line in before.splitlines() if mine not in line and "bare1" not in line]
    rack.known_hosts.write_text("\n".join([*lines, f"bare1,{mine} ssh-ed25519 {other}", ""]))
    rack.inside("bare0", "cat > /usr/local/sbin/visudo; chmod 755 /usr/local/sbin/visudo", stdin=REBOOTS)
    status, outcomes = rack.bootstrap()
    assert (status, kinds(outcomes)) == (1, {"spark0": "wrong-hardware", "bare0": None, "bare1": "host-key-changed"}), (
        outcomes
    )
    assert outcomes["bare0"]["rebooted"] is True
    assert outcomes["bare0"]["steps"] == {"key": "ok", "sudo": "changed", "python": "ok", "hostname": "ok"}
    assert "THE HOST KEY HAS CHANGED" in outcomes["bare1"]["fault"]["found"]
    assert rack.inside("spark0", f"ls -A /home/{USER}/.ssh 2> /dev/null || true") == ""
    rack.known_hosts.write_text(before)
    rack.write_nodes()


def test_one_serial_number_at_two_nodes_stops_these_two(rack: Rack) -> None:
    rack.inside("bare1", f"echo {serial('spark0')} > /etc/firstlight-lab/serial")
    rack.write_nodes(bare1={"serial": None})
    status, outcomes = rack.bootstrap()
    assert (status, kinds(outcomes)) == (
        1,
        {"spark0": "duplicate-serial", "bare0": None, "bare1": "duplicate-serial"},
    ), outcomes
    assert set(outcomes["bare0"]["steps"].values()) == {"ok"}
    rack.inside("bare1", f"echo {serial('bare1')} > /etc/firstlight-lab/serial")


def test_all_are_finished_and_a_second_run_needs_no_password(rack: Rack) -> None:
    rack.write_nodes(bare1={"name": "spark7"})
    assert rack.bootstrap("--check")[1]["spark0"]["steps"]["key"] == "would change"
    status, outcomes = rack.bootstrap("--no-password-login")
    assert (status, set(kinds(outcomes).values())) == (0, {None}), outcomes
    changed = {
        name: [step for step, state in one["steps"].items() if state == "changed"] for name, one in outcomes.items()
    }
    assert changed == {
        "spark0": ["key", "sudo", "password login"],
        "bare0": ["password login"],
        "spark7": ["key", "sudo", "hostname", "password login"],
    }
    assert rack.inside("bare1", "uname -n").strip() == "spark7"
    status, outcomes = rack.bootstrap("--no-password-login", password=False)
    assert status == 0, outcomes
    assert {state for one in outcomes.values() for state in one["steps"].values()} == {"ok"}


def test_ansible_needs_nothing_more(rack: Rack) -> None:
    hosts = {name: {"ansible_host": address} for name, address in rack.addresses.items()}
    settings = {
        "ansible_user": USER,
        "ansible_become": True,
        "ansible_ssh_private_key_file": str(rack.lab.directory / "id_ed25519"),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={rack.known_hosts} -o StrictHostKeyChecking=yes "
        "-o IdentitiesOnly=yes -o PasswordAuthentication=no",
    }
    inventory = rack.directory / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": settings}}))
    done = subprocess.run(
        ["ansible", "all", "-i", str(inventory), "-m", "ansible.builtin.command", "-a", "id -un"],
        env=rack.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split().count("root") == len(NODES)


def test_the_password_is_nowhere(rack: Rack) -> None:
    for path in rack.directory.rglob("*"):
        assert rack.password not in path.read_text(), path
    for node in NODES:
        rack.inside(node, "cat > /run/word", stdin=rack.password)
        found = rack.inside(node, "grep -rlFf /run/word /home /etc /var/log /root /tmp 2> /dev/null || true")
        assert found == "", node
    # And nobody gets in with it any more.
    status, found_again = rack.discover()
    assert (status, {one["host_key_state"] for one in found_again.values()}) == (0, {"pinned"})
    script = "sshd -T -C user=x,host=x,addr=127.0.0.1 | grep -c '^passwordauthentication no$'"
    assert {rack.inside(node, script).strip() for node in NODES} == {"1"}
