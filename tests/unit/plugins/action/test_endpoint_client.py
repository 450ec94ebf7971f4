# SPDX-License-Identifier: Apache-2.0
"""endpoint_client: files of the controller that are its owner's alone, and a play that shows no key however verbose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.action.endpoint_client import client_directory, converge
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


def play(tmp_path: Path, no_log: bool) -> subprocess.CompletedProcess[str]:
    tasks = [
        {
            "name": "Bring them",
            "firstlight.cluster.endpoint_client": {
                "names": ["alice"],
                "directory": str(tmp_path / "host"),
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
    done = play(tmp_path, no_log=True)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "client" / "keys" / "alice").read_text() == SECRET + "\n"
    assert SECRET not in done.stdout + done.stderr
    loud = play(tmp_path, no_log=False)
    assert loud.returncode != 0
    assert "no_log" in loud.stdout
    assert SECRET not in loud.stdout + loud.stderr
