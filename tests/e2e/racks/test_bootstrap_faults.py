# SPDX-License-Identifier: Apache-2.0
"""`firstlight discover` and `firstlight bootstrap` on three delivered nodes; further faults are in test_new_rack.py.

The module's fixtures are its stages: each runs after the one that it requests, and keeps what it saw for the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstlight_lab.as_delivered import USER, serial
from tests.e2e.own_lab import Run
from tests.e2e.racks.delivered_lab import PASSWORD_LOGIN_IS_OFF, DeliveredLab

pytestmark = pytest.mark.extended  # the faults an operator meets most often are in test_new_rack.py

NODES = ("spark0", "bare0", "bare1")
RENAMED = "spark7"
REBOOT_ONCE = "#!/bin/sh\nrm -f /usr/local/sbin/visudo\nreboot -ff\nsleep 60\n"
# Answers one mDNS question with a name and an address, as avahi does.
ANNOUNCE = """
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

Outcomes = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Found:
    """What `firstlight discover` found, by node."""

    status: int
    candidates: Outcomes


@dataclass(frozen=True)
class Bootstrapped:
    """What `firstlight bootstrap` did, by the names of the list."""

    status: int
    outcomes: Outcomes

    @property
    def faults(self) -> dict[str, str | None]:
        return {name: one["fault"] and one["fault"]["kind"] for name, one in self.outcomes.items()}

    def steps(self, state: str) -> dict[str, list[str]]:
        """The steps in this state, by name."""
        return {
            name: [step for step, found in one["steps"].items() if found == state]
            for name, one in self.outcomes.items()
        }


@dataclass
class Rack(DeliveredLab):
    """The nodes, and the directory in which their keys are pinned."""

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def discover(self, *options: str) -> Found:
        addresses = self.addresses
        words = ("discover", *addresses.values(), "--interface", self.interface)
        status, document = self.firstlight(*words, *self._login, *options)
        found = {one["address"]: one for one in document["candidates"]}
        return Found(status, {node: found[address] for node, address in addresses.items()})

    def bootstrap(
        self, *options: str, nodes: tuple[str, ...] = NODES, password: bool = True, **changes: dict[str, Any]
    ) -> Bootstrapped:
        """Bootstrap these nodes, with changes of what the list says about them."""
        addresses = self.addresses
        known = {
            node: {"name": node, "address": addresses[node], "serial": serial(node), "hardware": "gb10"}
            for node in nodes
        }
        listed = [{**known[node], **changes.get(node, {})} for node in nodes]
        path = self.directory / "nodes.yml"
        path.write_text(yaml.safe_dump({"nodes": listed}))
        words = ("bootstrap", "--nodes", str(path), *self._login, *options)
        status, document = self.firstlight(*words, password=password)
        return Bootstrapped(status, {one["name"]: one for one in document["nodes"]})

    @property
    def _login(self) -> tuple[str, ...]:
        key = str(self.lab.directory / "id_ed25519.pub")
        return ("--inventory", str(self.directory), "--user", USER, "--key", key)


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    made = Rack("bootstrap", tmp_path_factory.mktemp("bootstrap"))
    with made.running("--as-delivered", "--nodes", "1", "--bare", "2"):
        yield made


@dataclass(frozen=True)
class UnknownKeys:
    """Both commands while no host key is pinned."""

    found: Found
    refused: Bootstrapped
    keys_pinned: bool


@pytest.fixture(scope="module")
def unknown_keys(rack: Rack) -> UnknownKeys:
    """Stage 1: no host key is known, and one of the nodes announces its name."""
    announce = ("python3", "-c", ANNOUNCE, rack.addresses["bare0"])
    rack.lab.engine().docker("exec", "-d", rack.lab.container("bare0"), *announce)
    return UnknownKeys(rack.discover(), rack.bootstrap(), rack.known_hosts.exists())


@dataclass(frozen=True)
class DuplicateAddress:
    """Both commands while two nodes have one address."""

    found: Found
    refused: Bootstrapped


@pytest.fixture(scope="module")
def duplicate_address(rack: Rack, unknown_keys: UnknownKeys) -> DuplicateAddress:
    """Stage 2: bare1 has the address of bare0 as well."""
    taken = rack.addresses["bare0"]
    rack.inside("bare1", f"ip addr add {taken}/32 dev eth0")
    try:
        return DuplicateAddress(rack.discover(), rack.bootstrap("--interface", rack.interface))
    finally:
        rack.inside("bare1", f"ip addr del {taken}/32 dev eth0")


@dataclass(frozen=True)
class Trusted:
    """What was read with host keys that the operator confirmed."""

    found: Found
    written: dict[str, Any]


@pytest.fixture(scope="module")
def trusted(rack: Rack, duplicate_address: DuplicateAddress) -> Trusted:
    """Stage 3: the operator's file names the fingerprints."""
    fingerprints, written = rack.directory / "fingerprints", rack.directory / "found.yml"
    lines = [f"{rack.addresses[node]} {fingerprint}\n" for node, fingerprint in rack.fingerprints().items()]
    fingerprints.write_text("".join(lines))
    found = rack.discover("--fingerprints", str(fingerprints), "--output", str(written))
    return Trusted(found, yaml.safe_load(written.read_text()))


@pytest.fixture(scope="module")
def rebooted(rack: Rack, trusted: Trusted) -> Bootstrapped:
    """Stage 4: bare0 reboots while its sudo rule is checked."""
    rack.inside("bare0", "cat > /usr/local/sbin/visudo; chmod 755 /usr/local/sbin/visudo", stdin=REBOOT_ONCE)
    try:
        return rack.bootstrap(nodes=("bare0",))
    finally:
        rack.inside("bare0", "rm -f /usr/local/sbin/visudo")


@dataclass(frozen=True)
class Completed:
    """A dry run, the real one, and a second one without the password."""

    checked: Bootstrapped
    first: Bootstrapped
    second: Bootstrapped


@pytest.fixture(scope="module")
def completed(rack: Rack, rebooted: Bootstrapped) -> Completed:
    """Stage 5: every node is bootstrapped, one of them under another name, and its password login is turned off."""
    renamed = {"name": RENAMED}
    return Completed(
        rack.bootstrap("--check", bare1=renamed),
        rack.bootstrap("--no-password-login", bare1=renamed),
        rack.bootstrap("--no-password-login", password=False, bare1=renamed),
    )


@pytest.fixture(scope="module")
def ansible_run(rack: Rack, completed: Completed) -> Run:
    """Stage 6: Ansible logs in with the key and becomes root."""
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
    return rack.command(
        "ansible", "all", "-i", str(inventory), "-m", "ansible.builtin.command", "-a", "id -un", check=False
    )


def test_discover_shows_unknown_keys_and_announced_names(rack: Rack, unknown_keys: UnknownKeys) -> None:
    candidates = unknown_keys.found.candidates
    assert unknown_keys.found.status == 0
    assert {node: one["name"] for node, one in candidates.items()} == {
        "spark0": None,
        "bare0": "announced",
        "bare1": None,
    }
    assert {node: one["host_key"]["fingerprint"] for node, one in candidates.items()} == rack.fingerprints()
    assert {one["host_key_state"] for one in candidates.values()} == {"unknown"}
    assert all("ARP" in one["found_by"] and len(one["macs"]) == 1 for one in candidates.values())


def test_nobody_logs_in_while_host_keys_are_unknown(unknown_keys: UnknownKeys) -> None:
    assert {one["machine"] for one in unknown_keys.found.candidates.values()} == {None}
    assert (unknown_keys.refused.status, set(unknown_keys.refused.faults.values())) == (1, {"host-key-unknown"})
    assert not unknown_keys.keys_pinned


def test_discover_and_bootstrap_name_a_duplicate_address(duplicate_address: DuplicateAddress) -> None:
    candidates = duplicate_address.found.candidates
    assert duplicate_address.found.status == 1
    assert {node: [fault["kind"] for fault in one["faults"]] for node, one in candidates.items()} == {
        "spark0": [],
        "bare0": ["duplicate-address"],
        "bare1": [],
    }
    assert len(candidates["bare0"]["macs"]) == 2
    assert (duplicate_address.refused.status, duplicate_address.refused.faults) == (
        1,
        {"spark0": "host-key-unknown", "bare0": "duplicate-address", "bare1": "host-key-unknown"},
    )


def test_discover_reads_machines_with_confirmed_keys(rack: Rack, trusted: Trusted) -> None:
    candidates = trusted.found.candidates
    assert trusted.found.status == 0, candidates
    machines = {node: one["machine"] for node, one in candidates.items()}
    assert {node: machine["serial"] for node, machine in machines.items()} == {node: serial(node) for node in NODES}
    assert {machine["product"] for machine in machines.values()} == {"NVIDIA DGX Spark"}
    assert {machine["gpu_count"] for machine in machines.values()} == {1}
    assert candidates["spark0"]["hardware"] == "gb10"
    assert set(candidates["spark0"]["cages"]) == {"0", "1"}
    assert [(one["name"], one["serial"]) for one in trusted.written["nodes"]] == [
        (node, serial(node)) for node in NODES
    ]
    assert rack.known_hosts.stat().st_mode & 0o777 == 0o600


def test_bootstrap_continues_after_a_reboot(rebooted: Bootstrapped) -> None:
    assert (rebooted.status, rebooted.faults) == (0, {"bare0": None}), rebooted.outcomes
    assert rebooted.outcomes["bare0"]["rebooted"] is True
    assert rebooted.outcomes["bare0"]["steps"] == {
        "key": "changed",
        "sudo": "changed",
        "python": "ok",
        "hostname": "ok",
    }


def test_check_mode_tells_what_the_next_run_changes(completed: Completed) -> None:
    would_change, changed = completed.checked.steps("would change"), completed.first.steps("changed")
    assert {"key", "sudo"} <= set(would_change["spark0"])
    assert completed.checked.steps("changed") == {name: [] for name in would_change}
    assert {name: set(steps) - {"password login"} for name, steps in changed.items()} == {
        name: set(steps) for name, steps in would_change.items()
    }


def test_bootstrap_changes_only_what_is_missing(rack: Rack, completed: Completed) -> None:
    assert (completed.first.status, set(completed.first.faults.values())) == (0, {None}), completed.first.outcomes
    assert completed.first.steps("changed") == {
        "spark0": ["key", "sudo", "password login"],
        "bare0": ["password login"],
        RENAMED: ["key", "sudo", "hostname", "password login"],
    }
    assert rack.inside("bare1", "uname -n").strip() == RENAMED


def test_second_bootstrap_needs_no_password_and_changes_nothing(completed: Completed) -> None:
    assert completed.second.status == 0, completed.second.outcomes
    assert {state for one in completed.second.outcomes.values() for state in one["steps"].values()} == {"ok"}


def test_ansible_becomes_root_on_bootstrapped_nodes(ansible_run: Run) -> None:
    assert ansible_run.status == 0, ansible_run.output
    assert ansible_run.output.split().count("root") == len(NODES)


def test_password_is_in_no_file(rack: Rack, ansible_run: Run) -> None:
    for path in rack.directory.rglob("*"):
        assert rack.password not in path.read_text(), path
    for node in NODES:
        rack.inside(node, "cat > /run/password", stdin=rack.password)
        found = rack.inside(node, "grep -rlFf /run/password /home /etc /var/log /root /tmp 2> /dev/null || true")
        rack.inside(node, "rm /run/password")
        assert found == "", node


def test_password_login_is_off_and_keys_stay_pinned(rack: Rack, completed: Completed) -> None:
    assert set(rack.on_every_node(PASSWORD_LOGIN_IS_OFF).values()) == {"1"}
    found = rack.discover()
    assert (found.status, {one["host_key_state"] for one in found.candidates.values()}) == (0, {"pinned"})
