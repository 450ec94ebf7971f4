# SPDX-License-Identifier: Apache-2.0
"""The last words of a run: what a client needs, and no secret."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.client_help import FilterModule

ENDPOINT: dict[str, Any] = {
    "endpoint_listen": "192.0.2.10",
    "endpoint_port": 443,
    "endpoint_keys": [{"name": "alice"}],
    "endpoint_certificate": "",
}
PLAN: dict[str, Any] = {
    "host": {"name": "spark0"},
    "roles": {"endpoint": ENDPOINT, "inference_server": {"inference_server_served_name": "tiny"}},
}
client_help = FilterModule().filters()["client_help"]


def test_the_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    address, model, key, authority, empty, command = client_help(PLAN, str(tmp_path))
    place = f"/state/firstlight/{tmp_path.name}"
    assert address.split() == ["address", "https://192.0.2.10/v1"]
    assert model.split() == ["model", "tiny"]
    assert key.split() == ["key", f"{place}/keys/alice"]
    assert authority.split() == ["authority", f"{place}/ca.crt"]
    assert empty == ""
    assert shlex.split(command)[-1] == "https://192.0.2.10/v1/chat/completions"


def test_a_directory_and_a_cluster_of_the_operators_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    own = {**PLAN, "roles": {**PLAN["roles"], "endpoint": {**ENDPOINT, "endpoint_client_directory": "/own"}}}
    assert client_help(own, "/x")[2].split()[1] == "/own/keys/alice"
    named = {**PLAN, "roles": {**PLAN["roles"], "endpoint": {**ENDPOINT, "endpoint_cluster": "rack7"}}}
    assert client_help(named, "/x")[2].split()[1] == "/state/firstlight/rack7/keys/alice"


@pytest.mark.parametrize("plan", [None, "text", {"roles": None}, {"roles": {"endpoint": None}, "host": {"name": "a"}}])
def test_what_is_no_plan_with_an_endpoint(plan: object) -> None:
    with pytest.raises(AnsibleFilterError, match="client_help"):
        client_help(plan, "/x")
