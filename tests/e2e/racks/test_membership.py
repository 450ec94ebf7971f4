# SPDX-License-Identifier: Apache-2.0
"""A node is added to a cluster of two, its machine is replaced, it is removed, and it comes back.

The serving units of the other two only keep running, and the tests check that they do. The module's fixtures are its
stages: each runs after the one that it requests, and keeps what it saw for the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.own_lab import Run
from tests.e2e.racks.membership_lab import NEW, RAY, SERVING, MembershipLab, NodeState

pytestmark = pytest.mark.extended  # eight runs of whole playbooks on three nodes

RECORD = "/var/lib/firstlight/fabric.connectivity"
RULES = "/etc/firstlight/firewall.nft"
TOKEN = f"/etc/firstlight/supervisor-{NEW}.token"
PIPELINE_OF_TWO = ("-e", '{"serving": {"pipeline_parallel": 2}}')
ADDRESSES = ("192.168.100.12", "192.168.101.12")
"""Of the node that is added."""
FIRST_NUMBER, NEW_NUMBER = 10, 12

States = dict[str, NodeState]


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MembershipLab]:
    """Two prepared hosts with serving units, and a third node that is in no inventory."""
    made = MembershipLab("grow", tmp_path_factory.mktemp("grow"))
    with made.running("--nodes", "3"):
        made.write_inventory()
        made.write_rack(2)
        made.playbook("prepare")
        for host, units in SERVING.items():
            made.serve(host, *units)
        yield made


@pytest.fixture(scope="module")
def unknown_host(rack: MembershipLab) -> Run:
    """Stage 1: add_nodes.yml with a name that is not in the inventory."""
    return rack.playbook("add_nodes", "-e", f"nodes={NEW}", check=False)


@dataclass(frozen=True)
class Added:
    """The node is added, and then once more."""

    before: States
    first: Run
    after: States
    reached: dict[str, bool]
    second: Run


@pytest.fixture(scope="module")
def added(rack: MembershipLab, unknown_host: Run) -> Added:
    """Stage 2: the rack has a third position, with the serial of its machine."""
    before = rack.states()
    rack.write_rack(3, rack.serial_of_machine(0))
    first = rack.playbook("add_nodes", "-e", f"nodes={NEW}")
    after = rack.states()
    reached = {host: rack.reaches(host, NEW_NUMBER) for host in SERVING} | {NEW: rack.reaches(NEW, FIRST_NUMBER)}
    return Added(before, first, after, reached, rack.playbook("add_nodes", "-e", f"nodes={NEW}"))


@dataclass(frozen=True)
class Replaced:
    """Another machine is in the node's place: runs that are refused until the operator confirms it, and the last."""

    before: States
    known_before: list[str]
    unknown_key: Run
    wrong_serial_fault: dict[str, Any]
    known_after_wrong_serial: list[str]
    pin_fault: dict[str, Any] | None
    known_after: list[str]
    other_serial_planned: Run
    run: Run
    after: States
    reached: bool
    drained: bool


@pytest.fixture(scope="module")
def replaced(rack: MembershipLab, added: Added) -> Replaced:
    """Stage 3: the machine behind node3 is replaced."""

    def known() -> list[str]:
        return rack.known_hosts.read_text().splitlines()

    def replace_node(check: bool) -> Run:
        return rack.playbook("replace_node", "-e", f"node={NEW}", check=check)

    before, known_before = rack.states(), known()
    rack.command("firstlight", "lab", "replace", "spark2")
    unknown_key = replace_node(check=False)
    wrong_serial = rack.pin(NEW, "LAB-SOMEBODY-ELSE")["fault"]
    known_after_wrong_serial = known()
    pin_fault = rack.pin(NEW, rack.serial_of_machine(1))["fault"]
    known_after = known()
    other_serial_planned = replace_node(check=False)
    rack.write_rack(3, rack.serial_of_machine(1))
    run = replace_node(check=True)
    return Replaced(
        before,
        known_before,
        unknown_key,
        wrong_serial,
        known_after_wrong_serial,
        pin_fault,
        known_after,
        other_serial_planned,
        run,
        rack.states(),
        rack.reaches(NEW, FIRST_NUMBER),
        "/var/lib/firstlight/drained" in rack.state(NEW).files,
    )


@dataclass(frozen=True)
class Removed:
    """The node is removed in two runs: the first stops what serves on it, the second makes the others forget it."""

    head: Run
    before: States
    too_few_gpus: Run
    still_serving: Run
    unit_after_errors: str
    stopped: Run
    after_stop: States
    unit_after_stop: str
    after: States
    reports: dict[str, str]


@pytest.fixture(scope="module")
def removed(rack: MembershipLab, replaced: Replaced) -> Removed:
    """Stage 4: node3 serves, and is removed."""

    def remove(*options: str, host: str = NEW, check: bool = False) -> Run:
        return rack.playbook("remove_node", "-e", f"node={host}", *options, check=check)

    head = remove(host="node1")
    rack.serve(NEW, RAY)
    rack.at("node1", f"install -m 0600 /dev/null {TOKEN}")
    before = rack.states()
    too_few_gpus, still_serving = remove(), remove(*PIPELINE_OF_TWO)
    unit_after_errors = rack.at(NEW, f"systemctl is-active {RAY} || true")
    stopped = remove(*PIPELINE_OF_TWO, "-e", "restart_serving=true", check=True)
    after_stop = rack.states()
    unit_after_stop = rack.at(NEW, f"ls /etc/systemd/system/{RAY} 2> /dev/null || true")
    rack.write_rack(3, absent=[3])
    remove(check=True)
    return Removed(
        head,
        before,
        too_few_gpus,
        still_serving,
        unit_after_errors,
        stopped,
        after_stop,
        unit_after_stop,
        rack.states(),
        {host: rack.at(host, f"cat {RECORD}") for host in SERVING},
    )


@dataclass(frozen=True)
class Returned:
    """The node is in the inventory again."""

    after: States
    reached: dict[str, bool]


@pytest.fixture(scope="module")
def returned(rack: MembershipLab, removed: Removed) -> Returned:
    """Stage 5: a plain prepare.yml; by now the firewalls of the others are closed to the node."""
    rack.write_rack(3, rack.serial_of_machine(1))
    rack.playbook("prepare")
    return Returned(rack.states(), {host: rack.reaches(host, NEW_NUMBER) for host in SERVING})


def assert_untouched(before: States, after: States, *files: str) -> None:
    """The same boot, processes, packages and addresses, and no changed file but these."""
    for host, state in before.items():
        now = after[host]
        assert (now.boot, now.units, now.packages, now.links) == (state.boot, state.units, state.packages, state.links)
        assert now.changed_files(state) <= {*files}, host


def assert_firewalls_admit_new_node(after: States) -> None:
    for host in SERVING:
        assert [address for address in ADDRESSES if address not in after[host].rules] == [], host


def test_add_refuses_a_host_that_is_not_in_the_inventory(unknown_host: Run) -> None:
    assert unknown_host.status != 0
    assert "node3 is neither a host of the cluster nor a group with any" in unknown_host.text
    assert "raise count of its rack" in unknown_host.text


def test_add_tells_what_it_does_to_the_other_hosts(added: Added) -> None:
    text = added.first.text
    assert "node1: fabric_network (the record of its connectivity test), firewall (the addresses of its nodes)" in text
    assert "What serves is NOT restarted, and the new hosts are only prepared" in text
    assert "vllm-ray over 3 hosts is one service" in text


def test_add_changes_only_firewall_and_test_record_of_the_other_hosts(added: Added) -> None:
    assert_untouched(added.before, added.after, RECORD, RULES)
    assert_firewalls_admit_new_node(added.after)


def test_added_node_and_the_others_reach_each_other(added: Added) -> None:
    assert added.reached == {"node1": True, "node2": True, NEW: True}


def test_second_add_changes_nothing(added: Added) -> None:
    assert set(added.second.changed.values()) == {0}, added.second.output[-3000:]
    assert "node1: untouched" in added.second.text


def test_replace_refuses_a_host_key_that_is_not_pinned(replaced: Replaced) -> None:
    assert replaced.unknown_key.status != 0
    assert "node3 shows another host key than the pinned one" in replaced.unknown_key.text
    assert "--replaces node3" in replaced.unknown_key.text


def test_bootstrap_pins_no_key_of_a_machine_with_another_serial(replaced: Replaced) -> None:
    assert replaced.wrong_serial_fault["kind"] == "wrong-hardware"
    assert replaced.known_after_wrong_serial == replaced.known_before


def test_bootstrap_replaces_the_pinned_key_of_that_host_only(rack: MembershipLab, replaced: Replaced) -> None:
    assert replaced.pin_fault is None
    names = [line.split()[0] for line in replaced.known_after if rack.address(NEW) in line.split()[0].split(",")]
    assert names == [f"{NEW},{rack.address(NEW)}"]
    assert [line for line in replaced.known_before if "spark2" not in line] == [
        line for line in replaced.known_after if "spark2" not in line and NEW not in line
    ]


def test_replace_refuses_a_serial_that_is_not_in_the_inventory(rack: MembershipLab, replaced: Replaced) -> None:
    assert replaced.other_serial_planned.status != 0
    expected = f"has the serial {rack.serial_of_machine(1)}, expected {rack.serial_of_machine(0)}"
    assert expected in replaced.other_serial_planned.text


def test_replace_prepares_the_new_machine_and_leaves_the_others_alone(rack: MembershipLab, replaced: Replaced) -> None:
    assert f"node3 is the machine {rack.serial_of_machine(1)}, as in the inventory" in replaced.run.text
    assert replaced.run.changed["node1"] == replaced.run.changed["node2"] == 0
    assert_untouched(replaced.before, replaced.after)
    assert replaced.reached
    assert not replaced.drained


def test_remove_refuses_the_head(removed: Removed) -> None:
    assert removed.head.status != 0
    assert "node1 is the head" in removed.head.text


def test_remove_refuses_while_the_model_needs_every_gpu(removed: Removed) -> None:
    assert removed.too_few_gpus.status != 0
    assert "2 x gb10 have 2 GPUs, and the model is sharded over all of them" in removed.too_few_gpus.text


def test_remove_refuses_to_stop_serving_unasked(removed: Removed) -> None:
    assert removed.still_serving.status != 0
    assert "stops on node1, node2, node3" in removed.still_serving.text
    assert removed.unit_after_errors == "active"


def test_remove_stops_serving_on_the_node_when_asked(removed: Removed) -> None:
    assert "absent: [3]" in removed.stopped.text
    assert "firstlight_serving.pipeline_parallel: 2" in removed.stopped.text
    assert (removed.stopped.changed["node1"], removed.stopped.changed["node2"]) == (1, 0)
    assert_untouched(removed.before, removed.after_stop, TOKEN)
    assert TOKEN in removed.before["node1"].files
    assert TOKEN not in removed.after_stop["node1"].files
    assert removed.unit_after_stop == ""


def test_removed_node_is_out_of_firewalls_and_test_records(removed: Removed) -> None:
    assert_untouched(removed.before, removed.after, RECORD, RULES, TOKEN)
    for host in SERVING:
        assert [address for address in ADDRESSES if address in removed.after[host].rules] == [], host
        assert ADDRESSES[0] not in removed.reports[host]


def test_prepare_admits_a_node_that_comes_back(returned: Returned) -> None:
    assert_firewalls_admit_new_node(returned.after)
    assert returned.reached == {"node1": True, "node2": True}
