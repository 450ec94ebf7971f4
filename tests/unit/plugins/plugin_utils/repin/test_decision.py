# SPDX-License-Identifier: Apache-2.0
"""What a re-pin does with a host, from its plans and what was read of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.decision import host_decision

PACKAGES = {"nvidia-dkms-580-open": "580.2-1"}
DESIRED: dict[str, Any] = {
    "preflight": {"gpus": {"count": 1}},
    "nvidia_driver": {"packages": PACKAGES, "driver": {"version": "580.2"}},
}
PRESENT: dict[str, Any] = {
    "nvidia_driver": {"packages": {"nvidia-utils-580": "580.1-1"}, "files": {"/etc/apt/x": {"content": "x"}}}
}
DRIVER = {"installed": "580.1", "loaded": "580.1", "library": "580.1", "error": None}
PENDING = {"nvidia_driver": [{"kind": "package", "key": "x", "observed": "1", "expected": "2"}]}


def plan(policy: str, **more: Any) -> dict[str, Any]:
    roles = {"nvidia_driver": {"nvidia_driver_policy": policy}}
    return {"cluster": {"stack": "new"}, "roles": roles, "desired": DESIRED, **more}


def decided(policy: str = "install", driver: Any = None, serves: bool = True, **more: Any) -> dict[str, Any]:
    facts = {
        "reading": {"journal": None},
        "seen": {"observation": {"driver": {**DRIVER, **(driver or {})}, "gpus": {"count": 1}}},
        "plan": plan(policy, **more),
        "desired": DESIRED,
        "pending": PENDING,
        "present_plan": plan("install"),
        "present_desired": PRESENT,
    }
    return host_decision(facts, serves=serves)


def test_a_host_is_decided_by_plan_and_readings() -> None:
    assert decided()["action"] == "move"
    assert decided("verify-and-hold")["action"] == "refuse"


def test_what_forbids_the_role_forbids_the_move() -> None:
    found = decided(driver={"secure_boot": True, "signing": False})
    assert found["action"] == "refuse"
    assert "Secure Boot" in found["reasons"][0]


def test_a_rail_without_a_port_forbids_a_move_that_serves_again() -> None:
    lame: dict[str, Any] = {"host": {"name": "a"}, "errors": ["a: rail 192.0.2.0/24 has no port: plug it in"]}
    found = decided(**lame)
    assert (found["action"], found["reasons"]) == ("refuse", ["rail 192.0.2.0/24 has no port: plug it in"])
    assert decided(serves=False, **lame)["action"] == "move"


@pytest.mark.parametrize(
    ("policy", "packages", "leaving"),
    [
        ("install", PACKAGES, ["libnvidia-gl-580", "nvidia-utils-580"]),
        ("verify-and-hold", {}, ["nvidia-utils-580"]),
    ],
)
def test_what_comes_and_what_goes(policy: str, packages: dict[str, str], leaving: list[str]) -> None:
    """A driver that is only held neither comes nor takes along what belongs to it unnamed."""
    found = decided(policy, driver={"related": ["libnvidia-gl-580"], "mixed": []})
    assert found["to"]["packages"] == packages
    assert found["from_packages"] == leaving
    assert found["from_files"] == ["/etc/apt/x"]
