# SPDX-License-Identifier: Apache-2.0
"""The plan's states for the host that was seen: what only an observation knows is in them, and is pending."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.differences import differences
from ansible_collections.firstlight.cluster.plugins.filter.host_desired import host_desired
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import desired_state, observation_request

from tests.unit.ideal import ideal

VERSION = "580.126.09-0ubuntu0.24.04.2"
VARIABLES: dict[str, Any] = {
    "nvidia_driver_policy": "verify-and-hold",
    "nvidia_driver_packages": {"nvidia-driver-580-server": VERSION, "nvidia-dkms-580-server": VERSION},
    "nvidia_driver_fabric_manager": {"nvidia-fabricmanager-580": "580.126.09-0ubuntu0.24.04.1"},
    "nvidia_driver_version": "",
    "nvidia_driver_branch": "",
    "nvidia_driver_flavour": "",
    "nvidia_driver_source": {},
    "nvidia_driver_headers": True,
    "nvidia_driver_mig_ok": False,
}
TUNING = {"sysctl": {"vm.swappiness": "1"}}
PLAN: dict[str, Any] = {
    "roles": {"nvidia_driver": VARIABLES, "cuda_toolkit": None, "host_tuning": {}},
    "desired": {
        "nvidia_driver": desired_state("nvidia_driver", VARIABLES),
        "cuda_toolkit": {},
        "host_tuning": TUNING,
    },
}


def seen(nvswitches: int, related: dict[str, bool] | None = None) -> dict[str, Any]:
    """What a host shows on which a plain host's state holds, and nothing else."""
    found = ideal(PLAN["desired"]["nvidia_driver"])
    asked = observation_request("nvidia_driver", VARIABLES, desired_state("nvidia_driver", VARIABLES))
    for kind, absent in (("packages", None), ("holds", False)):
        found[kind] = dict.fromkeys(asked[kind], absent) | found[kind]
    found["units"]["nvidia-fabricmanager.service"] = {"load": "not-found", "enabled": False, "active": False, "sub": ""}
    found["driver"] |= {"nvswitches": nvswitches, "kernel": "6.8", "related": sorted(related or {})}
    found["holds"] |= related or {}
    return found


def pending(observation: dict[str, Any]) -> set[tuple[str, str]]:
    found = differences(host_desired(PLAN, observation), observation)
    return {(one["kind"], one["key"]) for one in found["nvidia_driver"]}


def test_a_missing_fabric_manager_is_pending_where_there_is_an_nvswitch() -> None:
    assert pending(seen(0)) == set()
    assert {
        ("package", "nvidia-fabricmanager-580"),
        ("hold", "nvidia-fabricmanager-580"),
        ("unit", "nvidia-fabricmanager.service"),
    } <= pending(seen(4))


def test_what_else_there_is_of_the_release_is_held() -> None:
    assert ("hold", "nvidia-utils-580-server") in pending(seen(0, {"nvidia-utils-580-server": False}))
    assert ("hold", "nvidia-utils-580-server") not in pending(seen(0, {"nvidia-utils-580-server": True}))


def test_other_roles_and_a_host_that_could_not_be_read_stay_as_planned() -> None:
    assert host_desired(PLAN, seen(4))["host_tuning"] == TUNING
    assert host_desired(PLAN, seen(4))["cuda_toolkit"] == {}
    assert host_desired(PLAN, {"errors": {"driver": "no answer within 30 s"}}) == PLAN["desired"]


@pytest.mark.parametrize(
    ("plan", "observation"),
    [([], {}), ({}, {}), (PLAN, []), ({"desired": {"nvidia_driver": {"packages": {}}}, "roles": {}}, {})],
)
def test_anything_else_is_refused_in_words(plan: Any, observation: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="host_desired"):
        host_desired(plan, observation)
