# SPDX-License-Identifier: Apache-2.0
"""Who may read by an intent, and what is refused of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.monitoring_intent import (
    ERRORS,
    Monitoring,
    listen_address,
    read_monitoring,
)

HOSTS = (
    HostIntent("a", address="10.0.0.1"),
    HostIntent("b", address="b.local", variables={"monitoring_listen": "10.0.0.2"}),
)


def read(value: Any, hosts: tuple[HostIntent, ...] = HOSTS) -> tuple[Monitoring | None, list[str]]:
    errors = PlanErrors()
    found = read_monitoring({} if value is None else {"firstlight_monitoring": value}, hosts, errors)
    return found, [one["id"] for one in errors.found]


def test_nothing_said_is_nobody() -> None:
    assert read(None, (HostIntent("c", address="c.local"),)) == (None, [])
    assert read({}, (HostIntent("c", address="c.local"),)) == (Monitoring(), [])


def test_hosts_are_addresses_once() -> None:
    found, refused = read({"hosts": ["10.0.0.5", "10.0.0.5", "fd00:0:0::5"], "port": 9500})
    assert refused == []
    assert found == Monitoring(hosts=("10.0.0.5", "fd00::5"), port=9500)


def test_a_host_is_read_at_its_own_address() -> None:
    assert [listen_address(host) for host in HOSTS] == ["10.0.0.1", "10.0.0.2"]
    assert listen_address(HostIntent("c", address="c.local")) is None


@pytest.mark.parametrize(
    ("value", "identifier"),
    [
        ([], "intent.type"),
        ({"host": ["10.0.0.5"]}, "intent.unknown-key"),
        ({"hosts": "10.0.0.5"}, "monitoring.hosts"),
        ({"hosts": ["monitor"]}, "monitoring.hosts"),
        ({"hosts": ["0.0.0.0"]}, "monitoring.hosts"),
        ({"hosts": ["10.0.0.0/8"]}, "monitoring.hosts"),
        ({"port": "9500"}, "monitoring.port"),
        ({"port": 80}, "monitoring.port"),
        ({"dcgm_image": "dcgm:latest"}, "monitoring.image"),
    ],
)
def test_what_cannot_be_is_refused(value: Any, identifier: str) -> None:
    assert read(value)[1] == [identifier]


def test_a_host_without_an_address_is_refused_once_somebody_shall_read() -> None:
    assert read({"hosts": ["10.0.0.5"]}, (HostIntent("c", address="c.local"),))[1] == ["monitoring.address"]
    assert "monitoring.address" in ERRORS
