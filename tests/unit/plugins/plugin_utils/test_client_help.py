# SPDX-License-Identifier: Apache-2.0
"""What a client is told, and where the controller keeps what it needs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import (
    NoEndpointError,
    client_files,
    cluster_name,
    help_of,
    planned_help,
    state_directory,
)

PLACE = Path("/home/x/.local/state/firstlight/spark4")


def variables(**changes: Any) -> dict[str, Any]:
    given = {
        "endpoint_listen": "192.0.2.10",
        "endpoint_port": 443,
        "endpoint_names": ["llm.example.org"],
        "endpoint_keys": [{"name": "alice"}, {"name": "ci"}],
        "endpoint_certificate": "",
        **changes,
    }
    return {"endpoint": given}


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({}, "https://192.0.2.10/v1"),
        ({"endpoint_port": 8443}, "https://192.0.2.10:8443/v1"),
        ({"endpoint_listen": "0.0.0.0"}, "https://llm.example.org/v1"),
        ({"endpoint_listen": "::", "endpoint_names": []}, "https://spark0/v1"),
        ({"endpoint_listen": "fd00::1"}, "https://[fd00::1]/v1"),
        ({"endpoint_listen": "fd00::1", "endpoint_port": 8443}, "https://[fd00::1]:8443/v1"),
    ],
)
def test_the_address(changes: dict[str, Any], url: str) -> None:
    assert help_of(variables(**changes), "tiny", "spark0", PLACE).url == url


def test_the_command_has_files_in_it_and_no_key() -> None:
    words = shlex.split(help_of(variables(), "tiny", "spark0", PLACE, "ci").curl("It's?"))
    assert words[:6] == [
        "curl",
        "--no-progress-meter",
        "--cacert",
        f"{PLACE}/ca.crt",
        "--header",
        f"@{PLACE}/keys/ci.header",
    ]
    assert words[-1] == "https://192.0.2.10/v1/chat/completions"


def test_a_public_certificate_needs_no_authority() -> None:
    given = help_of(variables(endpoint_certificate="/x.pem"), "tiny", "spark0", PLACE)
    assert not given.own_authority
    assert "--cacert" not in given.curl()


@pytest.mark.parametrize(
    ("roles", "key", "words"),
    [
        ({}, "", "has no endpoint"),
        ({"endpoint": None}, "", "has no endpoint"),
        (variables(), "bob", "there is no key 'bob'"),
        (variables(endpoint_keys=[]), "", "has no keys"),
    ],
)
def test_what_is_missing_is_said(roles: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(NoEndpointError, match=words):
        help_of(roles, "tiny", "spark0", PLACE, key)


def test_a_cluster_is_called_by_its_inventory(tmp_path: Path) -> None:
    directory = tmp_path / "spark4"
    directory.mkdir()
    (directory / "hosts.yml").touch()
    assert cluster_name([str(directory)]) == "spark4"
    assert cluster_name([str(directory / "hosts.yml")]) == "spark4"
    assert cluster_name(["a,b"]) == "cluster"


def test_its_state_is_where_the_standard_has_it() -> None:
    assert state_directory("a", {"XDG_STATE_HOME": "/state"}) == Path("/state/firstlight/a")
    assert state_directory("a", {"XDG_STATE_HOME": "state", "HOME": "/home/x"}) == Path(
        "/home/x/.local/state/firstlight/a"
    )


def test_a_header_is_a_line_for_curl() -> None:
    files = client_files(PLACE, {"alice": "sk-fl-1"}, "PEM")
    assert files == {
        PLACE / "keys" / "alice": "sk-fl-1\n",
        PLACE / "keys" / "alice.header": "Authorization: Bearer sk-fl-1\n",
        PLACE / "ca.crt": "PEM",
    }
    assert client_files(PLACE, {}, "") == {}


def planned(inventory: str = "/x", **changes: Any) -> list[str]:
    roles = {**variables(**changes), "inference_server": {"inference_server_served_name": "tiny"}}
    return planned_help(roles, "spark0", [inventory]).lines()


def test_the_lines_of_a_plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    address, model, key, authority, empty, command = planned(str(tmp_path))
    assert address.split() == ["address", "https://192.0.2.10/v1"]
    assert model.split() == ["model", "tiny"]
    assert key.split() == ["key", f"/state/firstlight/{tmp_path.name}/keys/alice"]
    assert authority.split() == ["authority", f"/state/firstlight/{tmp_path.name}/ca.crt"]
    assert empty == ""
    assert shlex.split(command)[-1] == "https://192.0.2.10/v1/chat/completions"


def test_a_directory_and_a_cluster_of_the_operators_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert planned(endpoint_client_directory="/own")[2].split()[1] == "/own/keys/alice"
    assert planned(endpoint_cluster="rack7")[2].split()[1] == "/state/firstlight/rack7/keys/alice"
