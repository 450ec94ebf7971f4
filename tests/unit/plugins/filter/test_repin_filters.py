# SPDX-License-Identifier: Apache-2.0
"""The filters of a re-pin: what they read from plans and facts, and what they say to wrong input."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.repin_decision import repin_decision
from ansible_collections.firstlight.cluster.plugins.filter.stack_leaving import stack_leaving
from ansible_collections.firstlight.cluster.plugins.filter.stack_set import stack_set
from ansible_collections.firstlight.cluster.plugins.filter.stack_states import stack_states

PACKAGES = {"nvidia-dkms-580-open": "580.2-1"}
DESIRED: dict[str, Any] = {
    "preflight": {"gpus": {"count": 1}},
    "nvidia_driver": {"packages": PACKAGES, "driver": {"version": "580.2"}},
}


def plan(policy: str) -> dict[str, Any]:
    return {
        "cluster": {"stack": "new"},
        "roles": {"nvidia_driver": {"nvidia_driver_policy": policy}},
        "desired": DESIRED,
    }


DRIVER = {"installed": "580.1", "loaded": "580.1", "library": "580.1", "error": None}
OBSERVED = {"driver": DRIVER, "gpus": {"count": 1}}
PENDING = {"nvidia_driver": [{"kind": "package", "key": "x", "observed": "1", "expected": "2"}]}


def test_a_host_is_decided_by_plan_and_readings() -> None:
    assert repin_decision({"journal": None}, plan("install"), OBSERVED, PENDING)["action"] == "move"
    assert repin_decision({"journal": None}, plan("verify-and-hold"), OBSERVED, PENDING)["action"] == "refuse"


def test_what_forbids_the_role_forbids_the_move() -> None:
    locked = {**OBSERVED, "driver": {**DRIVER, "secure_boot": True, "signing": False}}
    found = repin_decision({"journal": None}, plan("install"), locked, PENDING)
    assert found["action"] == "refuse"
    assert "Secure Boot" in found["reasons"][0]


def test_a_rail_without_a_port_forbids_a_move_that_serves_again() -> None:
    lame = {**plan("install"), "host": {"name": "a"}, "refusals": ["a: rail 192.0.2.0/24 has no port: plug it in"]}
    found = repin_decision({"journal": None}, lame, OBSERVED, PENDING)
    assert (found["action"], found["reasons"]) == ("refuse", ["rail 192.0.2.0/24 has no port: plug it in"])
    assert repin_decision({"journal": None}, lame, OBSERVED, PENDING, serves=False)["action"] == "move"


def test_a_set_leaves_out_what_is_only_held() -> None:
    assert stack_set(DESIRED, plan("install"))["packages"] == PACKAGES
    assert stack_set(DESIRED, plan("verify-and-hold"))["packages"] == {}


def test_what_goes_are_the_pins_and_what_belongs_to_a_driver_that_moves() -> None:
    present = {"pinned": ["nvidia-utils-580"]}
    seen = {"driver": {**DRIVER, "related": ["libnvidia-gl-580"], "mixed": []}}
    both = ["libnvidia-gl-580", "nvidia-utils-580"]
    assert stack_leaving(present, seen, DESIRED, plan("install")) == both
    assert stack_leaving(present, seen, DESIRED, plan("verify-and-hold")) == ["nvidia-utils-580"]
    assert stack_leaving(present, {}, {}, plan("install")) == ["nvidia-utils-580"]


def test_the_states_of_both_ways() -> None:
    assert set(stack_states(DESIRED)) == {"preflight", "nvidia_driver"}
    assert set(stack_states(DESIRED, back=True)) == {"preflight"}


@pytest.mark.parametrize(
    ("filter_", "arguments"),
    [
        (repin_decision, ("x", {}, {}, {})),
        (stack_set, ([], {})),
        (stack_states, ("x",)),
        (stack_leaving, ({}, {}, {}, "x")),
    ],
)
def test_wrong_input_is_one_message(filter_: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises((AnsibleFilterError, TypeError), match=r"takes|write"):
        filter_(*arguments)
