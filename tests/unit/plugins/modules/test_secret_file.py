# SPDX-License-Identifier: Apache-2.0
"""secret_file: made once, kept, never shown."""

from __future__ import annotations

import itertools
import os
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.modules import secret_file
from ansible_collections.firstlight.cluster.plugins.modules.secret_file import BEGIN, END, SecretError

from tests.unit.fake_host import Call, FakeHost, not_installed

KEY = f"{BEGIN}\nAAAA\n{END}\n"


def make(call: Call) -> int:
    """Stand for ssh-keygen."""
    Path(call.argv[-1]).write_text(KEY)
    return 0


MAKER = FakeHost({"ssh-keygen": make})
WITHOUT = FakeHost({"ssh-keygen": not_installed})


def parameters(path: Path, **changes: Any) -> dict[str, Any]:
    return {"path": str(path), "content": None, "kind": "random", "prefix": "", "bytes": 32, **changes}


def converge(given: dict[str, Any], check_mode: bool, host: FakeHost = WITHOUT) -> dict[str, Any]:
    return secret_file.converge(given, check_mode, host)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    result = converge(parameters(path), check_mode=False)
    secret = path.read_text()
    assert result == {"changed": True, "differs": True, "exists": True}
    assert len(secret) == 64
    assert not secret.strip("0123456789abcdef")
    assert mode(path) == 0o600
    assert converge(parameters(path), check_mode=False) == {"changed": False, "differs": False, "exists": True}
    assert path.read_text() == secret
    assert [entry.name for entry in tmp_path.iterdir()] == ["token"]


def test_its_directory_is_made_by_whoever_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "token"
    assert converge(parameters(path), check_mode=True)["exists"] is False
    assert not path.parent.exists()
    looks = itertools.count()

    def first_look(place: str) -> bool:
        """Somebody else makes it between the look and the making."""
        if next(looks) == 0:
            path.parent.mkdir(mode=0o700)
            return False
        return Path(place).is_dir()

    monkeypatch.setattr(os.path, "isdir", first_look)
    assert converge(parameters(path), check_mode=False)["exists"]
    assert mode(path.parent) == 0o755


@pytest.mark.hostile
def test_two_runs_at_once_make_one_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = itertools.count()

    def slow(_bytes: int) -> str:
        number = next(made)
        time.sleep(0.05)
        return f"{number}" * 64

    monkeypatch.setattr(secrets, "token_hex", slow)
    read = []

    def run(_number: int) -> bool:
        changed = converge(parameters(tmp_path / "token"), check_mode=False)["changed"]
        # What this run gives to the other nodes.
        read.append((tmp_path / "token").read_text())
        return bool(changed)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(run, range(4))) == 1
    assert len(set(read)) == 1


def test_two_secrets_differ(tmp_path: Path) -> None:
    for name in ("a", "b"):
        converge(parameters(tmp_path / name), check_mode=False)
    assert (tmp_path / "a").read_text() != (tmp_path / "b").read_text()


def test_check_mode_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "no" / "token"
    assert converge(parameters(path), check_mode=True) == {"changed": True, "differs": True, "exists": False}
    assert list(tmp_path.iterdir()) == []


def test_a_given_secret_is_written_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "token"
    given = parameters(path, content="0123456789abcdef\n")
    assert converge(given, check_mode=False)["changed"]
    assert path.read_text() == "0123456789abcdef"
    assert not converge(given, check_mode=False)["changed"]
    other = parameters(path, content="fedcba9876543210")
    assert converge(other, check_mode=True) == {"changed": True, "differs": True, "exists": True}
    assert path.read_text() == "0123456789abcdef"
    assert converge(other, check_mode=False)["changed"]


def test_a_loose_mode_is_tightened(tmp_path: Path) -> None:
    path = tmp_path / "token"
    converge(parameters(path), check_mode=False)
    path.chmod(0o644)
    assert converge(parameters(path), check_mode=True)["changed"]
    assert mode(path) == 0o644
    assert converge(parameters(path), check_mode=False)["changed"]
    assert mode(path) == 0o600


def test_a_prefix_names_the_secret(tmp_path: Path) -> None:
    path = tmp_path / "server.env"
    converge(parameters(path, prefix="VLLM_API_KEY="), check_mode=False)
    assert path.read_text().startswith("VLLM_API_KEY=")
    assert not converge(parameters(path, prefix="VLLM_API_KEY="), check_mode=False)["changed"]


def test_an_empty_file_gets_a_secret(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    assert converge(parameters(tmp_path / "token"), check_mode=False)["changed"]
    assert len((tmp_path / "token").read_text()) == 64


@pytest.mark.parametrize("content", ["short", "", "has a blank in the middle"])
def test_a_weak_secret_is_refused_without_being_told(tmp_path: Path, content: str) -> None:
    with pytest.raises(SecretError, match="expected at least 16 without spaces") as caught:
        converge(parameters(tmp_path / "token", content=content), check_mode=False)
    assert not content or content not in str(caught.value)


@pytest.mark.parametrize("text", ["OTHER=0123456789abcdef", "VLLM_API_KEY=short"])
def test_a_file_with_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.env"
    path.write_text(text)
    with pytest.raises(SecretError, match="remove it to have a new one generated") as caught:
        converge(parameters(path, prefix="VLLM_API_KEY="), check_mode=False)
    assert text not in str(caught.value)
    assert path.read_text() == text


def test_a_key_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "key"
    given = parameters(path, kind="ssh_key")
    assert converge(given, True, MAKER) == {"changed": True, "differs": True, "exists": False}
    assert not path.exists()
    assert converge(given, False, MAKER) == {"changed": True, "differs": True, "exists": True}
    assert path.read_text() == KEY
    assert mode(path) == 0o600
    assert not converge(given, check_mode=False)["changed"]


def test_a_given_key_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY)
    other = KEY.replace("AAAA", "BBBB")
    assert converge(parameters(path, kind="ssh_key", content=other.strip()), check_mode=False)["changed"]
    assert path.read_text() == other


def test_what_is_no_key_is_refused_and_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(SecretError, match="is not a private key") as error:
        converge(parameters(path, kind="ssh_key", content="hunter2"), False, MAKER)
    assert "hunter2" not in str(error.value)
    path.write_text("something")
    with pytest.raises(SecretError, match="remove it"):
        converge(parameters(path, kind="ssh_key"), False, MAKER)
    path.unlink()
    with pytest.raises(SecretError, match="install openssh-client"):
        converge(parameters(path, kind="ssh_key"), check_mode=False)
