# SPDX-License-Identifier: Apache-2.0
"""What an intent may say of the endpoint, and what the role is told then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint import desired
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint_intent import (
    Endpoint,
    read_endpoint,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint_variables import (
    check_endpoint,
    endpoint_variables,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from hypothesis import given
from hypothesis import strategies as st

ROLES = {"inference_server": {"inference_server_listen": "127.0.0.1", "inference_server_port": 8000}}
HEAD = HostIntent("spark0", is_head=True, address="192.0.2.10")


def test_without_a_word_there_is_none_and_by_default_it_has_one_key() -> None:
    errors = PlanErrors()
    assert read_endpoint({}, errors) is None
    assert read_endpoint({"firstlight_endpoint": {}}, errors) == Endpoint()
    assert not errors


def test_everything_that_can_be_said() -> None:
    errors = PlanErrors()
    given_ = {
        "listen": "0.0.0.0",
        "port": 8443,
        "http_port": 80,
        "names": ["llm.example.org"],
        "clients": ["10.0.0.0/8"],
        "keys": ["alice", {"name": "ci", "rate": 120}],
        "rate": 60,
        "key_connections": 32,
        "body_limit": "64m",
        "spool_limit": "8g",
        "extra_paths": ["/v1/messages"],
        "cluster": "lab",
    }
    read = read_endpoint({"firstlight_endpoint": given_}, errors)
    assert not errors.found
    assert read is not None
    assert read.keys == ({"name": "alice"}, {"name": "ci", "rate": 120})
    assert (read.port, read.http_port, read.rate, read.body_limit, read.cluster) == (8443, 80, 60, "64m", "lab")
    assert (read.key_connections, read.spool_limit) == (32, "8g")


@pytest.mark.parametrize(
    ("value", "identifier"),
    [
        ({"enabled": "yes"}, "endpoint.value"),
        ({"listen": "head"}, "endpoint.value"),
        ({"port": "https"}, "endpoint.value"),
        ({"port": 80, "http_port": 80}, "endpoint.port"),
        ({"names": "head"}, "endpoint.value"),
        ({"names": ["a b"]}, "endpoint.value"),
        ({"clients": ["10.0.0.1/8"]}, "endpoint.value"),
        ({"keys": "alice"}, "endpoint.keys"),
        ({"keys": ["Alice"]}, "endpoint.keys"),
        ({"keys": ["alice", "alice"]}, "endpoint.keys"),
        ({"keys": [{"name": "alice", "value": "sk"}]}, "endpoint.keys"),
        ({"body_limit": "much"}, "endpoint.value"),
        ({"body_limit": "8g"}, "endpoint.value"),
        ({"body_limit": "64m", "spool_limit": "32m"}, "endpoint.value"),
        ({"key_connections": 0}, "endpoint.value"),
        ({"extra_paths": ["/v1/../pause"]}, "endpoint.value"),
        ({"certificate": "/x.pem"}, "endpoint.value"),
        ({"tls": False}, "intent.unknown-key"),
        (True, "intent.type"),
    ],
)
def test_what_cannot_be_is_refused(value: Any, identifier: str) -> None:
    errors = PlanErrors()
    read_endpoint({"firstlight_endpoint": value}, errors)
    assert [one["id"] for one in errors.found] == [identifier]


@given(
    st.dictionaries(
        st.sampled_from(["listen", "port", "names", "clients", "keys", "rate", "body_limit", "extra_paths"]),
        st.one_of(st.none(), st.integers(), st.text(max_size=9), st.lists(st.one_of(st.text(max_size=9), st.none()))),
    )
)
def test_what_is_not_refused_makes_a_state(value: dict[str, Any]) -> None:
    errors = PlanErrors()
    read = read_endpoint({"firstlight_endpoint": value}, errors)
    assert read is not None
    variables = endpoint_variables(HEAD, read, ROLES)
    assert variables is not None
    if not errors:
        desired(variables)


def test_only_the_head_that_serves_has_one() -> None:
    assert endpoint_variables(HostIntent("spark1"), Endpoint(), ROLES) is None
    assert endpoint_variables(HEAD, Endpoint(enabled=False), ROLES) is None
    assert endpoint_variables(HEAD, Endpoint(), {"inference_server": None}) is None


@pytest.mark.parametrize(
    ("address", "listen", "names"),
    [
        ("192.0.2.10", "192.0.2.10", ["192.0.2.10", "spark0"]),
        ("head.example.org", "0.0.0.0", ["head.example.org", "spark0"]),
        (None, "0.0.0.0", ["spark0"]),
    ],
)
def test_it_is_where_ansible_finds_the_head(address: str | None, listen: str, names: list[str]) -> None:
    variables = endpoint_variables(HostIntent("spark0", is_head=True, address=address), Endpoint(), ROLES)
    assert variables is not None
    assert (variables["endpoint_listen"], variables["endpoint_names"]) == (listen, names)
    assert variables["endpoint_upstream"] == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("wanted", "listen", "refused"),
    [
        (Endpoint(port=8000), "0.0.0.0", True),
        (Endpoint(port=8000), "127.0.0.1", False),
        (Endpoint(port=8000, listen="0.0.0.0"), "127.0.0.1", True),
        (Endpoint(http_port=8001), "192.0.2.10", True),
        (Endpoint(port=8000, enabled=False), "0.0.0.0", False),
        (Endpoint(), "0.0.0.0", False),
    ],
)
def test_the_engines_own_place_is_taken(wanted: Endpoint, listen: str, refused: bool) -> None:
    errors = PlanErrors()
    serving = SimpleNamespace(listen=listen, port=8000, replicas=2)
    check_endpoint(cast(ResolvedIntent, SimpleNamespace(serving=serving, head=HEAD)), wanted, errors)
    assert [one["id"] for one in errors.found] == ["endpoint.port"] * refused
