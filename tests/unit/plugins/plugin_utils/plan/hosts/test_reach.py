# SPDX-License-Identifier: Apache-2.0
"""What Ansible cannot reach a host by is refused on paper."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanError, PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent, read_host
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.hosts.reach import check_reach


def hosts(*variables: dict[str, Any]) -> list[HostIntent]:
    return [read_host(f"n{at}", (), given, given.__getitem__, ()) for at, given in enumerate(variables, 1)]


def check(*variables: dict[str, Any]) -> tuple[list[PlanError], list[str]]:
    errors = PlanErrors()
    notes = check_reach(hosts(*variables), errors)
    return errors.found, notes


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "n1", "n1.example.com", "n1.example.com.", "N-1.lan", "node_1", "fd00::1", "fe80::1%eth0"],
)
def test_names_and_addresses_are_taken(address: str) -> None:
    assert check({"ansible_host": address}) == ([], [])


@pytest.mark.parametrize(
    "address",
    ["", None, "http://10.0.0.1/", "10.0.0.1:22", "root@10.0.0.1", "10.0.0.1 ", "a b", "10.0.0.0/24", "-n1", ["a"]],
)
def test_anything_else_is_refused(address: Any) -> None:
    ((one,), _) = check({"ansible_host": address})
    assert one["id"] == "host.address"
    assert one["found"].startswith("ansible_host of n1 ")


@pytest.mark.parametrize("port", [0, 65536, 99999, -22, "ssh", "", None, 2.5, True])
def test_a_port_is_a_number(port: Any) -> None:
    ((one,), _) = check({"ansible_port": port}, {"ansible_port": port})
    assert one["id"] == "host.port"
    assert one["found"].startswith("ansible_port of n1, n2 ")
    assert check({"ansible_port": 2222}, {"ansible_ssh_port": "22"}) == ([], [])


def test_an_account_is_a_name() -> None:
    ((one,), _) = check({"ansible_user": "two words"})
    assert (one["id"], one["found"]) == ("host.user", "ansible_user of n1 is 'two words'")
    assert check({"ansible_user": "nvidia"}, {"ansible_user": "DOM\\op"}, {"ansible_user": "op@example"}) == ([], [])


def test_one_host_may_be_this_machine() -> None:
    local = {"ansible_connection": "local"}
    assert check(local, {}) == ([], ["n1 has ansible_connection local: it is the machine that Ansible runs on."])
    ((one,), notes) = check(local, {}, local)
    assert (one["id"], one["found"], notes) == ("host.connection", "n1, n3 have ansible_connection local", [])


def test_many_hosts_are_not_all_listed() -> None:
    ((one,), _) = check(*[{"ansible_port": 0}] * 1000)
    assert one["found"] == "ansible_port of n1, n2, n3, n4 and 996 more is '0'"


def test_the_older_names_are_read_too() -> None:
    (one,) = hosts({"ansible_ssh_host": "10.0.0.1", "ansible_ssh_user": "op", "ansible_ssh_port": "2222"})
    assert (one.address, one.user, one.port) == ("10.0.0.1", "op", 2222)
    (one,) = hosts({"ansible_host": None})
    assert one.address is None
