# SPDX-License-Identifier: Apache-2.0
"""A re-pin on paper names what moves on some hosts only."""

from __future__ import annotations

from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.on_host import decided_on_host
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.paper import on_paper


def plan(version: str, policy: str = "install") -> ClusterPlan:
    driver: dict[str, Any] = {
        "nvidia_driver_policy": policy,
        "nvidia_driver_packages": {"nvidia-dkms-open": version},
        "nvidia_driver_fabric_manager": {"nvidia-fabricmanager": version},
        "nvidia_driver_headers": True,
    }
    desired = {"nvidia_driver": {"packages": {"nvidia-dkms-open": version}, "driver": {"version": version}}}
    roles = {"nvidia_driver": driver}
    host = {"on_host": decided_on_host(roles, desired, [], {})}
    return ClusterPlan({"h100": {"host": host, "roles": roles, "desired": desired}}, {"stack": version}, [])


def test_the_fabric_manager_moves_with_its_driver() -> None:
    (host,) = on_paper(plan("570.1"), plan("580.1"), "new")["hosts"].values()
    assert host["on_host"] == [
        {
            "what": "fabric manager",
            "when": "where the host has NVSwitch",
            "packages": [{"name": "nvidia-fabricmanager", "from": "570.1", "to": "580.1"}],
        },
        {
            "what": "kernel headers",
            "when": "for the running kernel",
            "packages": [{"name": "linux-headers-KERNEL", "from": None, "to": None}],
        },
    ]


def test_a_driver_that_stays_moves_nothing() -> None:
    for wanted in (plan("570.1"), plan("580.1", "verify-and-hold")):
        (host,) = on_paper(plan("570.1"), wanted, "new")["hosts"].values()
        assert host["on_host"] == []
