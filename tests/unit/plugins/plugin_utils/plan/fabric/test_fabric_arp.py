# SPDX-License-Identifier: Apache-2.0
"""Every port answers for its own address only."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.fabric_network import (
    LEDGER,
    SYSCTL_FILE,
    arp_state,
)

from tests.unit.ideal import ideal

ROOT = Path(__file__).parents[6]


def test_each_port_has_its_settings_and_the_file_says_the_same() -> None:
    state = arp_state(["enp1s0f1np1"])
    assert state["sysctl"] == {
        "net.ipv4.conf.enp1s0f1np1.arp_ignore": "1",
        "net.ipv4.conf.enp1s0f1np1.arp_announce": "2",
    }
    for key, value in state["sysctl"].items():
        assert f"{key} = {value}\n" in state["files"][SYSCTL_FILE]["content"]


def test_a_name_with_a_dot_cannot_be_a_key() -> None:
    assert arp_state(["enp1s0.100"]) == {}


def test_what_was_set_for_a_former_rail_is_to_be_given_back() -> None:
    state = arp_state(["enp1s0f1np1"])
    seen = ideal(state)
    seen["ledgers"][LEDGER]["keeps"] = [f"file {SYSCTL_FILE}", "sysctl net.ipv4.conf.enp1s0f1np1.arp_ignore"]
    assert differences(state, seen) == []
    former = "sysctl net.ipv4.conf.enp1s0f0np0.arp_ignore"
    seen["ledgers"][LEDGER]["keeps"].append(former)
    (found,) = differences(state, seen)
    assert (found["kind"], found["observed"]) == ("ledger", {"keeps": [former]})


def test_the_role_keeps_the_same_ledger() -> None:
    assert f"ledger: {LEDGER}\n" in (ROOT / "roles/fabric_network/tasks/arp.yml").read_text()
