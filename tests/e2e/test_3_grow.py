# SPDX-License-Identifier: Apache-2.0
"""A node is added to two that are a cluster, replaced by another machine, and removed. The others go on as they were.

What serves on these nodes only keeps running: whether it does is what is looked at. The tests follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from grow_lab import NAME, NEW, RAY, SERVING, GrowLab, Truth

pytestmark = pytest.mark.racks

PROOF = "/var/lib/firstlight/fabric.proof"
RULES = "/etc/firstlight/firewall.nft"
REST = ("-e", '{"serving": {"pipeline_parallel": 2}}')
ADDRESSES = ("192.168.100.12", "192.168.101.12")


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory, results: dict[str, Any]) -> Iterator[GrowLab]:
    made = GrowLab(tmp_path_factory.mktemp("grow"))
    try:
        made.command("firstlight", "lab", "up", "--nodes", "3")
        made.write_inventory()
        made.write_rack(2)
        made.playbook("prepare")
        for host, units in SERVING.items():
            made.serve(host, *units)
        yield made
    finally:
        made.command("firstlight", "lab", "down", "--name", NAME)
    results["grow, seconds"] = made.seconds


def assert_untouched(before: dict[str, Truth], after: dict[str, Truth], *files: str) -> None:
    """The same boot, the same processes, packages and addresses, and no other file than these."""
    for host, truth in before.items():
        now = after[host]
        assert (now.boot, now.units, now.packages, now.links) == (truth.boot, truth.units, truth.packages, truth.links)
        assert now.changed_since(truth) <= {*files}, host


def test_a_name_that_nobody_knows_is_refused(rack: GrowLab) -> None:
    run = rack.playbook("add_nodes", "-e", f"nodes={NEW}", check=False)
    assert run.status != 0
    assert "node3 is neither a host of the cluster nor a group with any" in run.words
    assert "raise count of its rack" in run.words


def test_a_node_is_added_and_the_others_go_on(rack: GrowLab) -> None:
    before = rack.truths()
    rack.write_rack(3, rack.sticker(0))
    run = rack.playbook("add_nodes", "-e", f"nodes={NEW}")
    assert "node1: fabric_network (the record of its proof), firewall (the addresses of its nodes)" in run.words
    assert "What serves is NOT restarted, and the new hosts are only prepared" in run.words
    assert "vllm-ray over 3 hosts is one service" in run.words
    after = rack.truths()
    assert_untouched(before, after, PROOF, RULES)
    for host in SERVING:
        assert all(address in after[host].rules for address in ADDRESSES)
        assert rack.reaches(host, 12)
    assert rack.reaches(NEW, 10)
    again = rack.playbook("add_nodes", "-e", f"nodes={NEW}")
    assert set(again.changed.values()) == {0}, again.output[-3000:]
    assert "node1: untouched" in again.words


def test_the_machine_behind_a_name_is_replaced(rack: GrowLab) -> None:
    before, pinned = rack.truths(), rack.known_hosts.read_text()
    rack.command("firstlight", "lab", "replace", "spark2")
    run = rack.playbook("replace_node", "-e", f"node={NEW}", check=False)
    assert run.status != 0
    assert "node3 shows another host key than the pinned one" in run.words
    assert "--replaces node3" in run.words

    fault = rack.pin(NEW, "LAB-SOMEBODY-ELSE")["fault"]
    assert fault["kind"] == "wrong-hardware"
    assert rack.known_hosts.read_text() == pinned
    assert rack.pin(NEW, rack.sticker(1))["fault"] is None
    lines = rack.known_hosts.read_text().splitlines()
    assert [line.split()[0] for line in lines if rack.address(NEW) in line] == [f"{NEW},{rack.address(NEW)}"]
    assert [line for line in pinned.splitlines() if "spark2" not in line] == [
        line for line in lines if "spark2" not in line and NEW not in line
    ]

    run = rack.playbook("replace_node", "-e", f"node={NEW}", check=False)
    assert run.status != 0
    assert f"has the serial {rack.sticker(1)}, expected {rack.sticker(0)}" in run.words
    rack.write_rack(3, rack.sticker(1))
    run = rack.playbook("replace_node", "-e", f"node={NEW}")
    assert f"node3 is the machine {rack.sticker(1)}, as the inventory has it" in run.words
    assert run.changed["node1"] == run.changed["node2"] == 0
    assert_untouched(before, rack.truths())
    assert rack.reaches(NEW, 10)
    assert "/var/lib/firstlight/drained" not in rack.truth(NEW).files


def test_a_node_is_removed_and_the_rest_knows(rack: GrowLab) -> None:
    run = rack.playbook("remove_node", "-e", "node=node1", check=False)
    assert run.status != 0
    assert "node1 is the head" in run.words
    rack.serve(NEW, RAY)
    before = rack.truths()
    run = rack.playbook("remove_node", "-e", f"node={NEW}", check=False)
    assert run.status != 0
    assert "2 x gb10 have 2 GPUs, and the model is sharded over all of them" in run.words
    run = rack.playbook("remove_node", "-e", f"node={NEW}", *REST, check=False)
    assert run.status != 0
    assert "stops on node1, node2, node3" in run.words
    assert rack.inside(NEW, f"systemctl is-active {RAY}").strip() == "active"

    run = rack.playbook("remove_node", "-e", f"node={NEW}", *REST, "-e", "restart_serving=true")
    assert "absent: [3]" in run.words
    assert "firstlight_serving.pipeline_parallel: 2" in run.words
    assert run.changed["node1"] == run.changed["node2"] == 0
    assert_untouched(before, rack.truths())
    assert rack.inside(NEW, f"ls /etc/systemd/system/{RAY} 2> /dev/null || true").strip() == ""

    rack.write_rack(3, absent=[3])
    run = rack.playbook("remove_node", "-e", f"node={NEW}")
    after = rack.truths()
    assert_untouched(before, after, PROOF, RULES)
    for host in SERVING:
        assert not any(address in after[host].rules for address in ADDRESSES)
        assert ADDRESSES[0] not in rack.inside(host, f"cat {PROOF}")


def test_a_host_that_comes_back_is_let_in_by_a_plain_run(rack: GrowLab) -> None:
    """The others are closed to it by now: they open before any path is proven."""
    rack.write_rack(3, rack.sticker(1))
    rack.playbook("prepare")
    after = rack.truths()
    for host in SERVING:
        assert all(address in after[host].rules for address in ADDRESSES)
        assert rack.reaches(host, 12)
