# SPDX-License-Identifier: Apache-2.0
"""endpoint_secrets: files of the controller that are its owner's alone; a play shows no key however verbose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.action.endpoint_secrets import (
    ActionModule,
    client_directory,
    converge,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import client_files

ROOT = Path(__file__).parents[4]
SECRET = "sk-fl-" + "s3cr3t" * 7


def test_files_are_written_once_and_taken_away(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    files = client_files(place, {"alice": "1", "ci": "2"}, "PEM")
    assert converge(place, files, check_mode=True)
    assert not place.exists()
    assert converge(place, files, check_mode=False)
    assert not converge(place, files, check_mode=False)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert (place / "keys").stat().st_mode & 0o777 == 0o700
    fewer = client_files(place, {"alice": "1"}, "PEM")
    assert converge(place, fewer, check_mode=True)
    assert converge(place, fewer, check_mode=False)
    assert sorted(path.name for path in (place / "keys").iterdir()) == ["alice", "alice.header"]


def test_a_loose_mode_is_tightened(tmp_path: Path) -> None:
    files = client_files(tmp_path, {"alice": "1"}, "")
    converge(tmp_path, files, check_mode=False)
    (tmp_path / "keys" / "alice").chmod(0o644)
    (tmp_path / "keys").chmod(0o755)
    assert converge(tmp_path, files, check_mode=False)
    assert (tmp_path / "keys" / "alice").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700


def test_the_cluster_is_called_by_its_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    arguments = {"client_directory": "", "cluster": ""}
    assert client_directory(arguments, {"inventory_dir": "/x/spark4"}) == Path("/state/firstlight/spark4")
    assert client_directory({**arguments, "cluster": "own"}, {}) == Path("/state/firstlight/own")
    assert client_directory({**arguments, "client_directory": "/y"}, {}) == Path("/y")


class AskedHost(ActionModule):
    """The action, and a host that answers whatever it likes."""

    def __init__(self, directory: Path, answer: dict[str, Any], **more: Any) -> None:
        self._answer = answer
        connection: Any = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nowhere"))
        task: Any = SimpleNamespace(
            args={"keys": ["alice"], "names": ["head"], "client_directory": str(directory), **more},
            no_log=True,
            check_mode=False,
            async_val=0,
        )
        self._connection, self._task = connection, task

    def _execute_module(self, *arguments: Any, **words: Any) -> dict[str, Any]:
        return self._answer


@pytest.mark.hostile
@pytest.mark.parametrize(
    "answer",
    [
        {"keys": {"../../.bashrc": "touch /tmp/pwned"}, "authority_pem": ""},
        {"keys": {"alice": SECRET, "../../.bashrc": SECRET}, "authority_pem": ""},
        {"keys": {"{0}/.bashrc": SECRET}, "authority_pem": ""},
        {"keys": {"alice": f"{SECRET}\nCookie: x"}, "authority_pem": ""},
        {"keys": {"alice": SECRET}, "authority_pem": "#!/bin/sh\n"},
        {"keys": [["alice", SECRET]], "authority_pem": ""},
        {"authority_pem": ""},
    ],
)
def test_a_hostile_head_writes_nothing_on_the_controller(tmp_path: Path, answer: dict[str, Any]) -> None:
    home, client = tmp_path / "home", tmp_path / "home" / "state" / "client"
    home.mkdir()
    if isinstance(answer.get("keys"), dict):
        answer = {**answer, "keys": {name.format(home): value for name, value in answer["keys"].items()}}
    said = AskedHost(client, answer).run(None, {})
    assert said["problem"].startswith("nothing was written on the controller: ")
    assert SECRET not in str(said)
    assert not said["changed"]
    assert list(home.iterdir()) == []


@pytest.mark.hostile
def test_a_hostile_head_takes_no_key_away(tmp_path: Path) -> None:
    honest: dict[str, Any] = {"keys": {"alice": SECRET}, "authority_pem": ""}
    assert AskedHost(tmp_path, honest).run(None, {})["changed"]
    assert AskedHost(tmp_path, {**honest, "keys": {"bob": SECRET}}).run(None, {})["problem"]
    assert (tmp_path / "keys" / "alice").read_text() == f"{SECRET}\n"


def test_a_given_value_is_brought_although_ansible_hides_it(tmp_path: Path) -> None:
    answer: dict[str, Any] = {"keys": {"alice": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"}, "authority_pem": ""}
    said = AskedHost(tmp_path, answer, key_values={"alice": SECRET}).run(None, {})
    assert (said["changed"], said["problem"]) == (True, "")
    assert SECRET not in str(said)
    assert (tmp_path / "keys" / "alice").read_text() == f"{SECRET}\n"


def test_what_went_wrong_on_the_host_is_told(tmp_path: Path) -> None:
    said = AskedHost(tmp_path, {"failed": True, "msg": "the certificate cannot serve"}).run(None, {})
    assert (said["changed"], said["problem"]) == (False, "the certificate cannot serve")
    assert not said.get("failed"), "of a task with no_log nobody would see why"


@pytest.mark.parametrize(("was_here", "left"), [(True, []), (False, ["alice", "alice.header"])])
def test_keys_go_from_the_controller_with_the_endpoint_they_are_of(
    tmp_path: Path, was_here: bool, left: list[str]
) -> None:
    AskedHost(tmp_path, {"keys": {"alice": SECRET}, "authority_pem": ""}).run(None, {})
    answer: dict[str, Any] = {"changed": was_here, "lines": [], "was_here": was_here}
    assert AskedHost(tmp_path, answer, state="absent").run(None, {})["changed"] is was_here
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == left


def play(tmp_path: Path, no_log: bool) -> subprocess.CompletedProcess[str]:
    tasks = [
        {
            "name": "Bring them",
            "firstlight.cluster.endpoint_secrets": {
                "keys": ["alice"],
                "names": ["localhost"],
                "directory": str(tmp_path / "host"),
                "engine_key_path": str(tmp_path / "server.env"),
                "client_directory": str(tmp_path / "client"),
            },
            "no_log": no_log,
            "register": "brought",
        },
        {"name": "Show it", "ansible.builtin.debug": {"var": "brought"}},
    ]
    (tmp_path / "play.yml").write_text(
        json.dumps([{"name": "Play", "hosts": "localhost", "gather_facts": False, "tasks": tasks}])
    )
    return subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            "-vvvv",
            "-i",
            "localhost,",
            "-c",
            "local",
            "play.yml",
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.slow  # two runs of Ansible
def test_no_verbosity_shows_a_key(tmp_path: Path) -> None:
    (tmp_path / "host" / "keys").mkdir(parents=True)
    (tmp_path / "host" / "keys" / "alice").write_text(SECRET + "\n")
    (tmp_path / "server.env").write_text(f"VLLM_API_KEY={'ab' * 32}\n")
    done = play(tmp_path, no_log=True)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "client" / "keys" / "alice").read_text() == SECRET + "\n"
    assert SECRET not in done.stdout + done.stderr
    loud = play(tmp_path, no_log=False)
    assert loud.returncode != 0
    assert "no_log" in loud.stdout
    assert SECRET not in loud.stdout + loud.stderr
