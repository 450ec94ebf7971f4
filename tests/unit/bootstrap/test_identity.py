# SPDX-License-Identifier: Apache-2.0
"""Is each node the machine that it should be?"""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, load_catalog

from firstlight.bootstrap.identity import address_faults, identity_faults, mismatches
from firstlight.bootstrap.touch import Outcome
from firstlight.bootstrap.view import line_of
from firstlight.discover.probe import Machine
from firstlight.ssh.faults import wrong_password
from firstlight.ssh.targets import Target

PROFILES = load_catalog([BUILT_IN])["hardware"]
SPARK = Machine(serial="S1", mac="02:42:ac:1d:02:0a", gpu_count=1, gpu_names=("NVIDIA GB10",))


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (Target("a", "10.0.0.5"), None),
        (Target("a", "10.0.0.5", "S1", "02:42:ac:1d:02:0a", "gb10"), None),
        (Target("a", "10.0.0.5", "S2"), "serial number S1"),
        (Target("a", "10.0.0.5", mac="02:42:ac:1d:02:0b"), "MAC address"),
        (Target("a", "10.0.0.5", hardware="h100-sxm-8"), "1 GPUs, not 8"),
        (Target("a", "10.0.0.5", hardware="abacus"), "its hardware cannot be checked"),
    ],
)
def test_another_machine_in_the_place(target: Target, found: str | None) -> None:
    fault = mismatches(target, SPARK, PROFILES)
    assert (fault is None) == (found is None)
    assert fault is None or (fault.kind == "wrong-hardware" and str(found) in fault.found)


def test_one_serial_at_two_nodes_stops_these_two() -> None:
    targets = [Target(name, f"10.0.0.{number}") for number, name in enumerate("abcde", start=5)]
    machines = {"a": SPARK, "b": SPARK, "c": Machine(serial="S3"), "d": Machine(), "e": Machine()}
    faults = identity_faults(targets, machines, PROFILES)
    assert {name: fault.kind for name, fault in faults.items()} == {"a": "duplicate-serial", "b": "duplicate-serial"}
    assert "also that of b" in faults["a"].found


def test_one_address_at_two_nodes_stops_these_two() -> None:
    targets = [Target("a", "10.0.0.5"), Target("b", "10.0.0.5"), Target("c", "10.0.0.6")]
    faults = address_faults(targets, {"10.0.0.6": ["02:42:ac:1d:02:0a"]})
    assert {name: fault.kind for name, fault in faults.items()} == {"a": "duplicate-address", "b": "duplicate-address"}


def test_two_machines_that_answer_for_one_address() -> None:
    faults = address_faults([Target("a", "10.0.0.5")], {"10.0.0.5": ["02:42:ac:1d:02:0a", "02:42:ac:1d:02:0b"]})
    assert "02:42:ac:1d:02:0a and 02:42:ac:1d:02:0b" in faults["a"].found


def test_what_is_said_of_a_node() -> None:
    target = Target("a", "10.0.0.5")
    assert line_of(Outcome(target, {"key": "ok"})) == ("done", "everything was there")
    rebooted = Outcome(target, {"key": "changed", "sudo": "ok"}, rebooted=True)
    assert line_of(rebooted)[1] == "changed: key; it rebooted during the run and was finished afterwards"
    assert line_of(Outcome(target, {"key": "would change"}))[1] == "would change: key"
    failed = Outcome(target, fault=wrong_password("operator"))
    assert line_of(failed)[0] == "FAILED"
    assert failed.as_document()["fault"]["kind"] == "wrong-password"
