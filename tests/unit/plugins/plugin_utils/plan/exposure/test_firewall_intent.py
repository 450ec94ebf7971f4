# SPDX-License-Identifier: Apache-2.0
"""What an intent may open, and what the plan makes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.firewall_rules import read_firewall
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.firewall_intent import (
    FirewallIntent,
    read_firewall_intent,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.firewall_variables import (
    firewall_variables,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.intent import Fabric
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.rails import Rail
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent

OWN = {"name": "console", "protocol": "tcp", "ports": [3000], "from": ["10.20.0.0/16"]}


def test_an_intent_is_read() -> None:
    errors = PlanErrors()
    assert read_firewall_intent({}, errors) is None
    assert read_firewall_intent({"firstlight_firewall": {}}, errors) == FirewallIntent()
    given = {"firstlight_firewall": {"open": [OWN], "ssh_from": ["10.0.0.0/8"]}}
    assert read_firewall_intent(given, errors) == FirewallIntent((OWN,), ("10.0.0.0/8",))
    assert not errors


@pytest.mark.parametrize(
    ("given", "identifier", "words"),
    [
        ({"opened": [OWN]}, "intent.unknown-key", "open"),
        ("closed", "intent.type", "mapping"),
        ({"open": OWN}, "firewall.opening", "a list of openings"),
        ({"open": [{**OWN, "from": []}]}, "firewall.opening", "firstlight_firewall.open[0].from is empty"),
        ({"open": [{"name": "console"}]}, "firewall.opening", "firstlight_firewall.open[0].protocol is None"),
        ({"open": ["all"]}, "firewall.opening", "firstlight_firewall.open[0] is 'all'"),
        ({"open": [OWN, OWN]}, "firewall.name", "firstlight_firewall.open[1].name"),
        ({"open": [{**OWN, "name": "endpoint"}]}, "firewall.name", "reserved for the plan"),
        ({"ssh_from": ["10.0.0.1/8"]}, "firewall.ssh-from", "10.0.0.1/8"),
        ({"ssh_from": "10.0.0.0/8"}, "firewall.ssh-from", "a list"),
    ],
)
def test_what_cannot_be_opened_is_refused(given: Any, identifier: str, words: str) -> None:
    errors = PlanErrors()
    read_firewall_intent({"firstlight_firewall": given}, errors)
    assert [one["id"] for one in errors.found] == [identifier]
    assert words in " ".join(errors.found[0].values())


def choices(names: list[str], rails: list[Rail]) -> ResolvedIntent:
    """Only what the firewall's variables are made from."""
    hosts = [HostIntent(name, name == names[0]) for name in names]
    fabric = Fabric(tuple(rails), 9000, False, tuple(range(len(names))))
    return cast(ResolvedIntent, SimpleNamespace(hosts=hosts, head=hosts[0], fabric=fabric))


RAILS = [
    Rail(subnet="192.168.100.0/24", port="fab0", expected="fab0"),
    Rail(subnet="192.168.101.0/24", port="fab1", expected="fab1"),
]


def test_all_nodes_are_peers_on_every_rail() -> None:
    made = choices(["spark0", "spark1"], RAILS)
    variables = firewall_variables(made, FirewallIntent(), {})
    assert variables == {
        "firewall_ssh_ports": [22],
        "firewall_ssh_from": [],
        "firewall_fabric": {
            "interfaces": ["fab0", "fab1"],
            "peers": ["192.168.100.10", "192.168.101.10", "192.168.100.11", "192.168.101.11"],
        },
        "firewall_openings": [],
    }
    read_firewall(variables)


def test_a_single_host_has_no_fabric() -> None:
    made = choices(["h100"], [])
    variables = firewall_variables(made, FirewallIntent((OWN,), ("10.0.0.0/8",)), {}, ssh_port=2222)
    assert variables["firewall_fabric"] == {}
    assert variables["firewall_ssh_ports"] == [2222]
    assert variables["firewall_ssh_from"] == ["10.0.0.0/8"]
    assert variables["firewall_openings"] == [OWN]


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ({"endpoint": None, "monitoring": None}, []),
        ({"endpoint": {"endpoint_listen": "127.0.0.1", "endpoint_port": 443}}, []),
        ({"endpoint": {"endpoint_listen": "::1", "endpoint_port": 443}}, []),
        (
            {"endpoint": {"endpoint_listen": "0.0.0.0", "endpoint_port": 443, "endpoint_clients": []}},
            [],
        ),
        (
            {
                "endpoint": {
                    "endpoint_listen": "10.20.0.5",
                    "endpoint_port": 8443,
                    "endpoint_http_port": 80,
                    "endpoint_clients": ["10.20.0.0/16"],
                }
            },
            [{"name": "endpoint", "protocol": "tcp", "ports": [8443, 80], "from": ["10.20.0.0/16"]}],
        ),
        ({"monitoring": {"monitoring_hosts": [], "monitoring_port": 9410}}, []),
        (
            {"monitoring": {"monitoring_hosts": ["10.20.0.9"], "monitoring_port": 9410}},
            [{"name": "monitoring", "protocol": "tcp", "ports": [9410], "from": ["10.20.0.9"]}],
        ),
    ],
)
def test_what_other_roles_need_is_opened(roles: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    made = choices(["h100"], [])
    variables = firewall_variables(made, FirewallIntent(), roles)
    assert variables["firewall_openings"] == expected
    read_firewall(variables)
