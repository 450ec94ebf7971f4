# SPDX-License-Identifier: Apache-2.0
"""Keys: made once, given or kept, revoked, never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.keys import KeysError, converge
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host

ENGINE = "ab" * 32
GIVEN = "sk-given-0123456789abcdef"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "server.env").write_text(f"VLLM_API_KEY={ENGINE}")
    (tmp_path / "endpoint").mkdir()
    return tmp_path


def keep(place: Path, *names: str, check: bool = False, **values: str) -> dict[str, Any]:
    parameters = {
        "directory": str(place / "endpoint"),
        "names": list(names),
        "values": values,
        "engine_key_path": str(place / "server.env"),
    }
    return converge(Host(), parameters, check)


def key(place: Path, name: str) -> str:
    return (place / "endpoint" / "keys" / name).read_text().strip()


def test_keys_are_made_once(place: Path) -> None:
    assert keep(place, "alice", "ci") == {"changed": True, "made": ["alice", "ci"], "revoked": []}
    made = key(place, "alice")
    assert made.startswith("sk-fl-")
    assert len(made) == 49
    assert key(place, "ci") != made
    assert keep(place, "alice", "ci") == {"changed": False, "made": [], "revoked": []}
    assert key(place, "alice") == made


def test_all_files_are_roots_alone(place: Path) -> None:
    keep(place, "alice")
    files = [path for path in (place / "endpoint").rglob("*") if path.is_file()]
    assert len(files) == 4
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert (place / "endpoint" / "keys").stat().st_mode & 0o777 == 0o700


def test_nginx_is_told_names_by_values_and_the_engines_key(place: Path) -> None:
    keep(place, "alice")
    assert (place / "endpoint" / "keys.map").read_text() == f'"~^[Bb]earer +{key(place, "alice")}$" alice;\n'
    assert (place / "endpoint" / "upstream.conf").read_text() == f'proxy_set_header Authorization "Bearer {ENGINE}";\n'
    assert ENGINE not in (place / "endpoint" / "keys.map").read_text()


def test_a_key_that_is_not_listed_any_more_is_revoked(place: Path) -> None:
    keep(place, "alice", "ci")
    gone = key(place, "ci")
    (place / "endpoint" / "reload-pending").unlink()
    assert keep(place, "alice", check=True) == {"changed": True, "made": [], "revoked": ["ci"]}
    assert key(place, "ci") == gone
    assert keep(place, "alice") == {"changed": True, "made": [], "revoked": ["ci"]}
    assert gone not in (place / "endpoint" / "keys.map").read_text()
    assert (place / "endpoint" / "reload-pending").exists()
    keep(place, "alice", "ci")
    assert key(place, "ci") != gone


def test_a_given_value_wins(place: Path) -> None:
    keep(place, "alice")
    assert keep(place, "alice", alice=GIVEN)["made"] == ["alice"]
    assert key(place, "alice") == GIVEN
    assert not keep(place, "alice", alice=GIVEN)["changed"]
    assert not keep(place, "alice")["changed"]


def test_another_key_of_the_engine_is_taken_over(place: Path) -> None:
    keep(place, "alice")
    (place / "server.env").write_text("VLLM_API_KEY=" + "cd" * 32)
    assert keep(place, "alice") == {"changed": True, "made": [], "revoked": []}
    assert "cdcd" in (place / "endpoint" / "upstream.conf").read_text()


def test_check_mode_writes_nothing_and_needs_nothing(tmp_path: Path) -> None:
    assert keep(tmp_path, "alice", check=True) == {"changed": True, "made": ["alice"], "revoked": []}
    assert list(tmp_path.iterdir()) == []


def test_an_engine_without_a_key_file_is_named(place: Path) -> None:
    (place / "server.env").unlink()
    with pytest.raises(KeysError, match="run the role inference_server first"):
        keep(place, "alice")


def test_the_engines_own_key_is_never_a_clients(place: Path) -> None:
    with pytest.raises(KeysError, match="the engine's own key") as caught:
        keep(place, "alice", alice=ENGINE)
    assert ENGINE not in str(caught.value)
    assert not (place / "endpoint" / "keys").exists()


def test_two_names_have_two_values(place: Path) -> None:
    with pytest.raises(KeysError, match="alice and ci have the same value"):
        keep(place, "alice", "ci", alice=GIVEN, ci=GIVEN)


def test_a_value_for_nobody_is_refused(place: Path) -> None:
    with pytest.raises(KeysError, match="values for bob"):
        keep(place, "alice", bob=GIVEN)


def test_a_loose_mode_is_tightened(place: Path) -> None:
    keep(place, "alice")
    (place / "endpoint" / "keys" / "alice").chmod(0o644)
    assert keep(place, "alice", check=True)["changed"]
    assert keep(place, "alice") == {"changed": True, "made": [], "revoked": []}
    assert (place / "endpoint" / "keys" / "alice").stat().st_mode & 0o777 == 0o600
