# SPDX-License-Identifier: Apache-2.0
"""`enabled: false` takes a part of the intent away; a variable that is left out says nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint_intent import (
    Endpoint,
    read_endpoint,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.firewall_intent import (
    FirewallIntent,
    read_firewall_intent,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.monitoring_intent import (
    Monitoring,
    read_monitoring,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.variables import (
    facing_variables,
    unwanted,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent

HEAD = HostIntent("spark0", is_head=True, address="192.0.2.10")


def chosen(**parts: Any) -> ResolvedIntent:
    return cast("ResolvedIntent", SimpleNamespace(**{"endpoint": None, "monitoring": None, "firewall": None, **parts}))


def test_a_variable_that_is_left_out_says_nothing() -> None:
    assert unwanted(chosen()) == []
    assert unwanted(chosen(endpoint=Endpoint(), monitoring=Monitoring(), firewall=FirewallIntent())) == []


def test_what_is_not_enabled_is_unwanted_and_has_no_variables() -> None:
    off = chosen(
        endpoint=Endpoint(enabled=False), monitoring=Monitoring(enabled=False), firewall=FirewallIntent(enabled=False)
    )
    assert unwanted(off) == ["endpoint", "monitoring", "firewall"]
    assert set(facing_variables(off, HEAD, {}, {}, lambda _, planned: dict(planned)).values()) == {None}


@pytest.mark.parametrize(("value", "wanted"), [(None, True), (True, True), (False, False)])
def test_enabled_is_read_alike_everywhere(value: bool | None, wanted: bool) -> None:
    errors = PlanErrors()
    given = {f"firstlight_{name}": {"enabled": value} for name in ("endpoint", "firewall", "monitoring")}
    read = (read_endpoint(given, errors), read_firewall_intent(given, errors), read_monitoring(given, [], errors))
    assert [part.enabled for part in read if part is not None] == [wanted] * 3
    assert not errors


@pytest.mark.parametrize("value", ["no", 0, [], "false"])
def test_anything_else_is_refused(value: object) -> None:
    for name in ("endpoint", "firewall", "monitoring"):
        errors = PlanErrors()
        given = {f"firstlight_{name}": {"enabled": value}}
        read_endpoint(given, errors)
        read_firewall_intent(given, errors)
        read_monitoring(given, [], errors)
        assert len(errors.found) == 1
        assert f"firstlight_{name}.enabled" in errors.found[0]["found"]


def test_monitoring_that_is_off_needs_no_address() -> None:
    errors = PlanErrors()
    given = {"firstlight_monitoring": {"enabled": False, "hosts": ["192.0.2.5"]}}
    read_monitoring(given, [HostIntent("spark0", address="spark0.example")], errors)
    assert not errors
