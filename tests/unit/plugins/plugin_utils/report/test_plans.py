# SPDX-License-Identifier: Apache-2.0
"""Which measurements are of today's plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.results import configuration_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.host_plan import host_plan
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planning import plan_hosts
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.plans import known_plans, preferred

SUBNETS = ("192.168.100.0/24", "192.168.101.0/24")
PORTS = {"enp1s0f1np1": "rocep1s0f1", "enP2p1s0f1np1": "roceP2p1s0f1"}


@pytest.fixture(scope="module")
def plans() -> Mapping[str, Any]:
    """Four Sparks whose ports have their names on paper."""
    rails = [{"subnet": subnet, "port": port} for subnet, port in zip(SUBNETS, PORTS, strict=True)]
    intent = {
        "firstlight_hardware": "gb10",
        "firstlight_stack": "spark-vllm-0.32",
        "firstlight_model": "qwen3.5-397b-a17b-fp8",
        "firstlight_image": f"registry.example/vllm@sha256:{'1' * 64}",
        "firstlight_serving": {"tensor_parallel": 4, "max_model_len": 32768},
        "firstlight_fabric": {"rails": rails},
        "firstlight_firewall": {},
    }
    made = plan_hosts([HostIntent(f"spark{number}", number == 0, intent=intent) for number in range(4)])
    assert not made.errors, made.errors
    return made.hosts


def seen(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A host that has the planned ports, at half their speed."""
    ports = {
        name: {
            **dict.fromkeys(("cage", "half", "driver", "pci")),
            "port": name,
            "rdma_device": device,
            "link_layer": "Ethernet",
            "speed_mbit": 100_000,
            "carrier": True,
            "mtu": 9000,
            "addresses": [entry["address"]],
        }
        for (name, device), entry in zip(PORTS.items(), plan["host"]["fabric"], strict=True)
    }
    return {"fabric": ports, "errors": {}}


def named(plans: Mapping[str, Any]) -> str:
    return str(configuration_of(plans)["plan_sha256"])


def test_a_plan_is_known_on_paper_and_with_the_ports_that_the_hosts_have(plans: Mapping[str, Any]) -> None:
    observations = {host: seen(plan) for host, plan in plans.items()}
    refined = {host: host_plan(plan, observations[host]) for host, plan in plans.items()}
    assert named(plans) != named(refined)
    assert known_plans(plans, observations) == [named(plans), named(refined)]


def test_hosts_that_say_nothing_or_nonsense_have_the_plan_on_paper(plans: Mapping[str, Any]) -> None:
    head, *_ = plans
    assert known_plans(plans, {}) == [named(plans)]
    assert known_plans(plans, {head: {"fabric": "none"}}) == [named(plans)]


def test_a_trial_of_other_settings_is_not_what_serves() -> None:
    trial, own, old = ({"run": name, "configuration": {"plan_sha256": name}} for name in ("trial", "own", "old"))
    assert preferred([trial, own, old], ["own", "found"]) == own
    assert preferred([trial, old], ["own", "found"]) == trial
    assert preferred([{"configuration": {"plan_sha256": []}}, own], ["own"]) == own
    assert preferred([], ["own"]) is None
