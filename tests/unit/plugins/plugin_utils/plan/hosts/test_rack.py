# SPDX-License-Identifier: Apache-2.0
"""What a rack can carry, on paper: the arithmetic of the catalog's own machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.hosts.rack import (
    RackIntent,
    check_racks,
    rack_budgets,
    read_racks,
)

HARDWARE = load_catalog([Path(__file__).resolve().parents[6] / "catalog"])["hardware"]


def host(called: str, /, **place: Any) -> HostIntent:
    return HostIntent(called, intent={"firstlight_rack": place} if place else {})


def rack(count: int, **limits: float) -> RackIntent:
    return RackIntent("a", tuple(f"h{number}" for number in range(count)), limits)


def evaluated(
    racks: list[RackIntent], power: dict[str, float], hardware: str
) -> tuple[list[str], list[dict[str, str]]]:
    errors = PlanErrors()
    notes = check_racks(racks, power, HARDWARE[hardware], errors)
    return notes, errors.found


def test_hosts_are_put_together_by_rack() -> None:
    errors = PlanErrors()
    hosts = [host("x", name="a", power_w=5000), host("y", name=2, position=1), host("z", name="a"), host("w")]
    assert read_racks(hosts, errors) == [
        RackIntent("a", ("x", "z"), {"power_w": 5000.0}),
        RackIntent("2", ("y",), {}),
        RackIntent(None, ("w",), {}),
    ]
    assert not errors


@pytest.mark.parametrize(
    ("hosts", "identifier"),
    [
        ([HostIntent("x", intent={"firstlight_rack": "a"})], "rack.place"),
        ([host("x", position=1)], "rack.place"),
        ([host("x", name="a", power_w="5 kW")], "rack.place"),
        ([host("x", name="a", units=-1)], "rack.place"),
        ([host("x", name="a", power_w=5000), host("y", name="a", power_w=6000)], "rack.place"),
        ([host("x", name="a", colour="red")], "intent.unknown-key"),
    ],
)
def test_a_place_that_is_none_is_refused(hosts: list[HostIntent], identifier: str) -> None:
    errors = PlanErrors()
    read_racks(hosts, errors)
    assert [one["id"] for one in errors.found] == [identifier]


def test_eight_reference_nodes_are_too_much_for_a_rack_of_30_kw() -> None:
    """Four GPUs of 700 W are 2.8 kW, 3.5 kW with the rest of the host, and 4 kW in transients."""
    _, (error,) = evaluated([rack(8, power_w=30000)], {}, "h100-sxm-4-nvswitch")
    assert error["id"] == "power.rack"
    assert error["found"] == (
        "rack a has 8 hosts h100-sxm-4-nvswitch, which draw 8 x 3500 W = 28000 W sustained (each 4 x 700 W for GPUs "
        "and 700 W for the rest) and 8 x 4000 W = 32000 W in transients; it can give 30000 W"
    )
    assert error["remedy"].startswith("keep 7 of them in it (7 x 4000 W = 28000 W), or correct power_w")


def test_what_fits_is_told() -> None:
    notes, errors = evaluated([rack(7, power_w=30000)], {}, "h100-sxm-4-nvswitch")
    assert not errors
    assert " ".join(notes) == (
        "Rack a can give 30000 W; its hosts draw 7 x 3500 W = 24500 W sustained (each 4 x 700 W for GPUs and 700 W for "
        "the rest) and 7 x 4000 W = 28000 W in transients."
    )


def test_the_burn_in_is_told_of_the_racks() -> None:
    racks = [rack(2, power_w=1000), RackIntent("b", ("x",), {}), RackIntent(None, ("z",), {})]
    assert rack_budgets(racks) == {"racks": {"a": {"hosts": ["h0", "h1"], "power_w": 1000}, "b": {"hosts": ["x"]}}}
    assert rack_budgets([RackIntent(None, ("z",), {})]) == {}


def test_every_rack_is_evaluated_by_its_own_limit() -> None:
    racks = [rack(4, power_w=1000), RackIntent("b", ("x", "y"), {}), RackIntent(None, ("z",), {})]
    notes, errors = evaluated(racks, {"rack_w": 300}, "gb10")
    assert [one["found"].partition(" has")[0] for one in errors] == ["rack b"]
    assert notes == [
        "Rack a can give 1000 W; its hosts draw 4 x 240 W = 960 W at most.",
        "The rack can give 300 W; its hosts draw 240 W at most.",
    ]


def test_a_rack_that_cannot_carry_one_host_says_so() -> None:
    _, (error,) = evaluated([rack(1, power_w=5000)], {}, "h100-sxm-8")
    assert error["found"].startswith("rack a has 1 host h100-sxm-8, which draw 10200 W sustained")
    assert error["remedy"].startswith("provide more power")


def test_what_the_operator_says_of_the_rest_counts() -> None:
    _, (error,) = evaluated([rack(2, power_w=9000)], {"other_w": 1500}, "h100-sxm-4-nvswitch")
    assert "2 x 4300 W = 8600 W sustained (each 4 x 700 W for GPUs and 1500 W for the rest)" in error["found"]
    assert "2 x 4800 W = 9600 W in transients" in error["found"]
    notes, _ = evaluated([rack(1, power_w=1500)], {"other_w": 400}, "h100-pcie")
    assert notes == [
        "Rack a can give 1500 W; its hosts draw 1100 W sustained (each 2 x 350 W for GPUs and 400 W for the rest)."
    ]


def test_what_nobody_knows_is_the_least() -> None:
    notes, errors = evaluated([rack(2, power_w=1500)], {}, "h100-pcie")
    assert not errors
    assert " ".join(notes) == (
        "Rack a can give 1500 W; its hosts draw 2 x 700 W = 1400 W at least (each 2 x 350 W for GPUs). The draw of "
        "the rest is not known: set firstlight_power.other_w."
    )
    _, (error,) = evaluated([rack(3, power_w=1500)], {}, "h100-pcie")
    assert "3 x 700 W = 2100 W at least" in error["found"]


def test_a_host_is_evaluated_by_its_supply() -> None:
    _, (error,) = evaluated([], {"host_w": 3600}, "h100-sxm-4")
    assert error["id"] == "power.host"
    assert error["remedy"].startswith("give it at least 4000 W")
    assert evaluated([], {"host_w": 4000}, "h100-sxm-4") == ([], [])


def test_height_is_added_up() -> None:
    _, (error,) = evaluated([rack(6, units=42)], {}, "h100-sxm-8")
    assert error["id"] == "rack.space"
    assert error["found"] == "rack a has 42 units; 6 hosts h100-sxm-8 take 6 x 8 = 48 units"
    assert "keep at most 5 of them" in error["remedy"]
    assert evaluated([rack(5, units=42)], {}, "h100-sxm-8") == ([], [])
    assert evaluated([rack(500, units=42)], {}, "gb10") == ([], [])


def test_without_hardware_nothing_is_evaluated() -> None:
    errors = PlanErrors()
    assert check_racks([rack(99, power_w=1)], {}, None, errors) == []
    assert not errors
