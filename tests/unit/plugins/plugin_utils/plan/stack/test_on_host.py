# SPDX-License-Identifier: Apache-2.0
"""What is left to be decided on a host is in the plan, with its condition."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.on_host import decided_on_host

DRIVER: dict[str, Any] = {
    "nvidia_driver_policy": "install",
    "nvidia_driver_packages": {"nvidia-dkms-580-open": "580.1-1"},
    "nvidia_driver_fabric_manager": {"nvidia-fabricmanager-580": "580.1-1", "libnvidia-nscq-580": "580.1-1"},
    "nvidia_driver_headers": True,
    "nvidia_driver_reboot_ok": False,
}


def decided(**given: Any) -> dict[str, dict[str, Any]]:
    """By what they are about; each part as on a host without anything."""
    parts: dict[str, Any] = {"roles": {}, "desired": {}, "rails": [], "environment": {}, **given}
    found = decided_on_host(parts["roles"], parts["desired"], parts["rails"], parts["environment"])
    return {one["what"]: one for one in found}


def test_a_host_with_nothing_to_decide() -> None:
    assert decided() == {}


def test_the_fabric_manager_is_named_with_its_packages_and_its_unit() -> None:
    found = decided(roles={"nvidia_driver": DRIVER})["fabric manager"]
    assert found["packages"] == {"nvidia-fabricmanager-580": "580.1-1", "libnvidia-nscq-580": "580.1-1"}
    assert found["units"] == ["nvidia-fabricmanager.service"]
    assert found["when"] == "where the host has NVSwitch"
    assert found["does"] == "installed, held and started"
    held = {**DRIVER, "nvidia_driver_policy": "verify-and-hold"}
    assert decided(roles={"nvidia_driver": held}).keys() == {"fabric manager"}
    assert decided(roles={"nvidia_driver": held})["fabric manager"]["does"].startswith("verified")


@pytest.mark.parametrize(("allowed", "words"), [(True, "the host is rebooted"), (False, "the run stops until")])
def test_a_reboot_is_told_with_what_it_needs(allowed: bool, words: str) -> None:
    found = decided(roles={"nvidia_driver": {**DRIVER, "nvidia_driver_reboot_ok": allowed}})
    assert found["reboot"]["does"].startswith(words)
    assert found.keys() == {"fabric manager", "kernel headers", "former driver", "persistence", "reboot"}


def test_headers_are_for_sets_that_build_their_module() -> None:
    signed = {**DRIVER, "nvidia_driver_packages": {"linux-modules-nvidia-580-open-generic": "1"}}
    assert "kernel headers" not in decided(roles={"nvidia_driver": signed})
    assert "kernel headers" not in decided(roles={"nvidia_driver": {**DRIVER, "nvidia_driver_headers": False}})


def test_ports_found_by_their_cable_and_the_devices_behind_them() -> None:
    rails = [{"port": None, "cage": None, "half": half, "address": f"10.0.{half}.1/24"} for half in (0, 1)]
    found = decided(rails=rails, environment={"NCCL_IB_HCA": "=mlx5_0:1"})
    assert found["fabric ports"]["does"] == "10.0.0.1/24, 10.0.1.1/24 on the ports of the one cage that has a cable"
    assert "=mlx5_0:1" in found["RDMA devices"]["does"]
    named = [{**rail, "port": "enp1s0"} for rail in rails]
    assert decided(rails=named) == {}


def test_units_that_are_stopped_only_where_they_are() -> None:
    off = {"enabled": False, "active": False, "if_present": True}
    units = {
        "gdm.service": off,
        "docker.service": {"active": True},
        "nvidia-persistenced.service": {**off, "active": True},
    }
    assert decided(desired={"host_tuning": {"units": units}})["units"]["units"] == ["gdm.service"]
