# SPDX-License-Identifier: Apache-2.0
"""Eight delivered machines, taken to a tested fabric by the commands of docs/new-rack.md, and faults on the way.

Every command of the page is recorded in build/new-rack-record.json. The module's fixtures are its stages: each runs
after the one that it requests, and keeps what it saw for the tests.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from firstlight_lab.as_delivered import USER, serial
from tests.e2e.fabric.fabric_rack import MANAGEMENT, NETPLAN, RAIL, UNREACHABLE, FabricRack
from tests.e2e.fabric.fabric_rack import RECORD as CONNECTIVITY_RECORD
from tests.e2e.own_lab import Run
from tests.e2e.racks.delivered_lab import PASSWORD_LOGIN_IS_OFF
from tests.e2e.racks.new_rack_lab import (
    BOOTSTRAP,
    COMMANDS,
    COUNT,
    DISCOVER,
    HOSTS,
    INIT,
    PLAN,
    PREPARE,
    RECORD,
    SHOW_KEYS,
    NewRack,
)
from tests.e2e.support import CHECKOUT

SSH_FILES = f"/home/{USER}/.ssh"
FAULTY_FABRIC = HOSTS[:3]
"""Enough hosts to tell whose switch port it is; the head is among them."""
UNCHECKED_CHANGE = (
    *("-e", "fabric_network_apply_others=true"),
    *("-e", "fabric_network_timeout=5", "-e", "fabric_network_confirm_timeout=15"),
)


@dataclass(frozen=True)
class ShownKeys:
    """What the first look printed, and what there was afterwards."""

    output: str
    inventory_exists: bool
    installed: dict[str, str]


@dataclass(frozen=True)
class FaultyBootstrap:
    """The outcome of a bootstrap with a fault on all hosts but one, and the SSH files on two of them afterwards."""

    status: int
    outcomes: dict[str, dict[str, Any]]
    files_on_full_disk: str
    files_on_wrong_hardware: str


@dataclass(frozen=True)
class Bootstrapped:
    """What each node has after bootstrap. The name is read at once: Docker restores the old one at the next boot."""

    names: dict[str, str]
    password_login_is_off: dict[str, str]
    authorized_keys: dict[str, str]


@dataclass(frozen=True)
class Prepared:
    """A run of prepare.yml, and what each host has afterwards."""

    run: Run
    tested_peers: dict[str, set[str]]
    gpus: dict[str, str]


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewRack]:
    made = NewRack("new-rack", tmp_path_factory.mktemp("new-rack"))
    with made.running("--as-delivered", "--nodes", "0", "--bare", str(COUNT)):
        yield made


@pytest.fixture(scope="module")
def shown_keys(rack: NewRack) -> ShownKeys:
    """Stage 1: the host keys are shown."""
    output = rack.follow(SHOW_KEYS).output
    programs = "command -v docker nvidia-smi || true"
    keys = f"find {SSH_FILES} /root/.ssh -type f 2> /dev/null || true"
    installed = rack.on_every_node(f"{programs}; {keys}")
    return ShownKeys(output, rack.inventory.exists(), installed)


@pytest.fixture(scope="module")
def discovered(rack: NewRack, shown_keys: ShownKeys) -> Run:
    """Stage 2: the keys are pinned, the machines are read, and the list of nodes is written."""
    rack.write_fingerprints()
    return rack.follow(DISCOVER)


@pytest.fixture(scope="module")
def faulty_bootstrap(rack: NewRack, discovered: Run) -> FaultyBootstrap:
    """Stage 3: bootstrap with seven faults at once, all of which are repaired afterwards."""
    node = rack.node_of
    pinned = rack.known_hosts.read_text()
    other_key = (rack.lab.directory / "id_ed25519.pub").read_text().split()[1]
    address = rack.addresses[node["spark5"]]
    others = [line for line in pinned.splitlines() if address not in line.split()[0].split(",")]
    home = SSH_FILES
    try:
        rack.set_password(node["spark1"], "another-password")
        rack.inside(node["spark2"], f"gpasswd -d {USER} sudo")
        rack.inside(
            node["spark3"],
            f"install -d -o {USER} {home}; mount -t tmpfs -o size=4k,mode=700 none {home}\n"
            f"chown {USER} {home}; cat /dev/zero > {home}/full 2> /dev/null || true",
        )
        rack.known_hosts.write_text("\n".join([*others, f"{address} ssh-ed25519 {other_key}", ""]))
        rack.inside(node["spark7"], f"echo {serial(node['spark6'])} > /etc/firstlight-lab/serial")
        status, outcomes = rack.bootstrap(spark4={"serial": "LAB-OTHER"}, spark7={"serial": None})
        full = rack.inside(node["spark3"], f"ls -A {home}").strip()
        wrong = rack.inside(node["spark4"], f"ls -A {home} 2> /dev/null || true").strip()
    finally:
        rack.set_password(node["spark1"], rack.password)
        rack.inside(node["spark2"], f"gpasswd -a {USER} sudo")
        rack.inside(node["spark3"], f"umount {home} || true")
        rack.known_hosts.write_text(pinned)
        rack.inside(node["spark7"], f"echo {serial(node['spark7'])} > /etc/firstlight-lab/serial")
    return FaultyBootstrap(status, outcomes, full, wrong)


@pytest.fixture(scope="module")
def bootstrapped(rack: NewRack, faulty_bootstrap: FaultyBootstrap) -> Bootstrapped:
    """Stage 4: every host lets the operator's key in, and no password."""
    rack.follow(BOOTSTRAP)
    return Bootstrapped(
        rack.on_every_node("uname -n"),
        rack.on_every_node(PASSWORD_LOGIN_IS_OFF),
        rack.on_every_node(f"cat {SSH_FILES}/authorized_keys"),
    )


@pytest.fixture(scope="module")
def inventory(rack: NewRack, bootstrapped: Bootstrapped) -> dict[str, Any]:
    """Stage 5: the inventory is written; its variables per host."""
    rack.follow(INIT)
    shown = rack.command("ansible-inventory", "-i", str(rack.inventory), "--list")
    variables: dict[str, Any] = json.loads(shown.output)["_meta"]["hostvars"]
    return variables


@pytest.fixture(scope="module")
def planned(rack: NewRack, inventory: dict[str, Any]) -> Run:
    """Stage 6: the plan, with what the operator fills in and what only a lab needs."""
    shutil.copy(CHECKOUT / "tests/e2e/racks/new_rack/group_vars/cluster.yml", rack.inventory / "group_vars")
    return rack.follow(PLAN)


def prepare(rack: NewRack) -> Prepared:
    run = rack.follow(PREPARE)
    reports = {host: json.loads(rack.inside(node, f"cat {CONNECTIVITY_RECORD}")) for host, node in rack.node_of.items()}
    peers = {host: {peer["host"] for peer in report["tested"]} for host, report in reports.items()}
    return Prepared(run, peers, rack.on_every_node("nvidia-smi -L && docker info > /dev/null"))


@pytest.fixture(scope="module")
def prepared(rack: NewRack, planned: Run) -> Prepared:
    """Stage 7: driver, containers, tuning and fabric."""
    return prepare(rack)


@pytest.fixture(scope="module")
def prepared_again(rack: NewRack, prepared: Prepared) -> Prepared:
    """Stage 8: the same run a second time."""
    return prepare(rack)


@pytest.fixture(scope="module")
def fabric(rack: NewRack, prepared: Prepared) -> FabricRack:
    """Three of the prepared hosts, for faults of their fabric."""
    options = {
        "UserKnownHostsFile": rack.known_hosts,
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "User": USER,
    }
    login = ["ssh", "-F", "/dev/null", "-i", str(rack.key)]
    login += [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    nodes = {host: rack.node_of[host] for host in FAULTY_FABRIC}
    numbers = {host: 10 + HOSTS.index(host) for host in FAULTY_FABRIC}
    return FabricRack(rack, rack.inventory, nodes, numbers, login)


# -- from delivery to a tested fabric -----------------------------------------------------------------------------


def test_discover_shows_unknown_host_keys(rack: NewRack, shown_keys: ShownKeys) -> None:
    for node, fingerprint in rack.fingerprints().items():
        (line,) = [line for line in shown_keys.output.splitlines() if line.startswith(f"{rack.addresses[node]} ")]
        assert f"{fingerprint} (unknown)" in line


def test_discover_logs_in_nowhere_while_host_keys_are_unknown(shown_keys: ShownKeys) -> None:
    assert "No login at" in shown_keys.output
    assert not shown_keys.inventory_exists
    assert set(shown_keys.installed.values()) == {""}


def test_bootstrap_names_the_fault_of_each_host(faulty_bootstrap: FaultyBootstrap) -> None:
    kinds = {host: one["fault"] and one["fault"]["kind"] for host, one in faulty_bootstrap.outcomes.items()}
    assert (faulty_bootstrap.status, kinds) == (
        1,
        {
            "spark1": "wrong-password",
            "spark2": "no-sudo",
            "spark3": "full-disk",
            "spark4": "wrong-hardware",
            "spark5": "host-key-changed",
            "spark6": "duplicate-serial",
            "spark7": "duplicate-serial",
            "spark8": None,
        },
    )
    assert "THE HOST KEY HAS CHANGED" in faulty_bootstrap.outcomes["spark5"]["fault"]["found"]


def test_bootstrap_leaves_nothing_incomplete_on_a_host_with_a_fault(faulty_bootstrap: FaultyBootstrap) -> None:
    assert faulty_bootstrap.outcomes["spark2"]["steps"] == {"key": "changed"}
    assert faulty_bootstrap.files_on_full_disk == "full"
    assert faulty_bootstrap.files_on_wrong_hardware == ""


def test_bootstrap_completes_every_host(rack: NewRack, bootstrapped: Bootstrapped) -> None:
    assert bootstrapped.names == {node: host for host, node in rack.node_of.items()}
    assert set(bootstrapped.password_login_is_off.values()) == {"1"}
    key = (rack.directory / "id_ed25519.pub").read_text().strip()
    assert [node for node, keys in bootstrapped.authorized_keys.items() if key not in keys] == []


def without_marker(value: Any) -> Any:
    """A value of ansible-inventory, which marks text from a file as one that is not a template."""
    return value["__ansible_unsafe"] if isinstance(value, dict) else value


def test_init_writes_addresses_and_serials_as_found(rack: NewRack, inventory: dict[str, Any]) -> None:
    addresses = {host: without_marker(variables["ansible_host"]) for host, variables in inventory.items()}
    assert addresses == {host: rack.addresses[node] for host, node in rack.node_of.items()}
    serials = {host: without_marker(variables["firstlight_rack"]["serial"]) for host, variables in inventory.items()}
    assert serials == {host: serial(node) for host, node in rack.node_of.items()}


def test_init_refuses_to_overwrite_an_inventory(rack: NewRack, inventory: dict[str, Any]) -> None:
    before = {path: path.read_text() for path in rack.inventory.rglob("*") if path.is_file()}
    run = rack.command(
        "firstlight", "init", "spark8", str(rack.inventory), "--nodes", str(rack.nodes_file), check=False
    )
    assert (run.status, "is not empty, it has ansible.cfg and 2 more" in run.text) == (2, True), run.output
    assert {path: path.read_text() for path in before} == before


def test_plan_is_complete(planned: Run) -> None:
    assert "Required before apply" not in planned.output


def test_prepare_tests_every_path_of_the_fabric(prepared: Prepared) -> None:
    assert set(prepared.run.changed) == set(HOSTS)
    assert prepared.tested_peers == {host: set(HOSTS) - {host} for host in HOSTS}


def test_prepare_installs_driver_and_container_engine(prepared: Prepared) -> None:
    assert all("GB10" in listed for listed in prepared.gpus.values())


@pytest.mark.extended  # all eight once more; the README's cluster shows a second run
def test_second_prepare_changes_nothing(prepared_again: Prepared) -> None:
    assert prepared_again.run.changed == dict.fromkeys(HOSTS, 0)


def test_password_is_in_no_file_of_the_operator(rack: NewRack, prepared: Prepared) -> None:
    assert len(json.loads(RECORD.read_text())) >= len(COMMANDS)
    for path in (RECORD, *(path for path in rack.directory.rglob("*") if path.is_file())):
        assert rack.password not in path.read_text(), path


# -- faults of the fabric; further ones are in tests/e2e/fabric -----------------------------------------------------


@pytest.mark.extended  # the pairs of tests/e2e/fabric name such a port, too
def test_verify_names_the_switch_port_without_jumbo_frames(fabric: FabricRack) -> None:
    bad = FAULTY_FABRIC[1]
    with fabric.fault(repair=lambda: fabric.switch(bad, RAIL, mtu=9000)):
        fabric.switch(bad, RAIL, mtu=1500)
        verified = fabric.verify()
    assert verified.run.status == 2
    verified.run.line(f"to and from {bad} on {RAIL} at most 1500-byte packets", f"switch port MTU of {bad}", "9216")
    # Its own paths lead to every host of the cluster, whether or not the run is limited.
    assert verified.failed == {
        host: {f"fabric.ping.{RAIL}.{peer}" for peer in (HOSTS if host == bad else [bad]) if peer != host}
        for host in FAULTY_FABRIC
    }


@pytest.mark.extended  # every pair once more; what decides is in unit tests of the probe
def test_verify_names_both_hosts_that_have_one_address(fabric: FabricRack) -> None:
    owner, intruder = FAULTY_FABRIC[1:]
    address = fabric.address(owner, RAIL)
    with fabric.fault(repair=lambda: fabric.on(intruder, f"ip addr del {address}/32 dev {RAIL} || true")):
        fabric.on(intruder, f"ip addr add {address}/32 dev {RAIL}")
        verified = fabric.verify()
    assert verified.run.status == 2
    verified.run.line(address, owner, intruder)
    assert f"fabric.duplicate.{RAIL}" in verified.failed[owner]


@pytest.mark.extended  # the change that is not checked before it cuts off is below
def test_network_change_that_would_cut_off_the_host_is_refused(fabric: FabricRack) -> None:
    host = FAULTY_FABRIC[2]
    with fabric.pending_cut_off(host) as pending:
        run = fabric.fabric(hosts=[host])
        assert run.status == 2
        run.line(MANAGEMENT, "eth0", UNREACHABLE, "nothing was changed")
        assert pending.address in fabric.on(host, "ip -4 -o addr show eth0")
        assert fabric.on(host, f"cat {NETPLAN}") == pending.fabric_file


def test_network_change_that_cuts_off_the_host_is_rolled_back(fabric: FabricRack) -> None:
    host = FAULTY_FABRIC[2]
    with fabric.pending_cut_off(host) as pending:
        run = fabric.fabric(*UNCHECKED_CHANGE, hosts=[host])
        assert run.status == 2
        run.line("by itself", NETPLAN, "controller")
        assert pending.address in fabric.on(host, "ip -4 -o addr show eth0")
        assert fabric.change_in_progress(host) == ""
        assert fabric.on(host, f"cat {NETPLAN}") == pending.fabric_file
