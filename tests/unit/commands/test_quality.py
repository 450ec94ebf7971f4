# SPDX-License-Identifier: Apache-2.0
"""`firstlight quality`: what the playbook is told, its status, and the playbook as far as it goes without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firstlight.cli import build_parser
from firstlight.commands.quality import exit_status, settings
from firstlight.errors import DONE, FAILED, OPEN
from firstlight.playbooks import PLAYBOOKS, playbook_words
from tests.unit.ansible_runs import run_playbook


def test_the_playbook_gets_what_the_command_was_given() -> None:
    arguments = build_parser("quality").parse_args(
        ["quality", "-i", "inventory/lab", "--accept", "--reference", "/a.json", "--answers", "/b.json"]
    )
    words = playbook_words("quality.yml", arguments, settings(arguments, Path("/tmp/x.json")))
    assert words[0] == str(PLAYBOOKS / "quality.yml")
    assert Path(words[0]).is_file()
    assert json.loads(words[-1]) == {
        "quality_accept": True,
        "quality_reference": "/a.json",
        "quality_answers_document": "/b.json",
        "quality_document": "/tmp/x.json",
    }


def test_what_was_not_asked_for_is_left_to_the_inventory() -> None:
    arguments = build_parser("quality").parse_args(["quality", "-i", "inventory/lab"])
    assert settings(arguments, Path("/tmp/x")) == {"quality_document": "/tmp/x"}


@pytest.mark.parametrize(
    ("status", "exits"),
    [("same", DONE), ("within_limits", DONE), ("worse", FAILED), ("no_reference", OPEN), ("could_not_ask", OPEN)],
)
def test_the_status_tells_worse_from_left_open(status: str, exits: int) -> None:
    assert exit_status(status) == exits


@pytest.mark.slow  # a run of Ansible
def test_a_server_that_is_not_there_was_not_asked(tmp_path: Path) -> None:
    """This machine stands for the hosts: nothing listens, and nobody is asked a second prompt."""
    chosen = {"ansible_connection": "local", "ansible_become": False, "quality_document": str(tmp_path / "found.json")}
    done = run_playbook(
        "playbooks/quality.yml",
        *("-i", "inventory/h100x4", "-e", json.dumps(chosen | {"quality_gate": True})),
        environment={"XDG_STATE_HOME": str(tmp_path / "state")},
    )
    assert done.returncode != 0
    assert "are not what they were" in " ".join(done.stdout.split()), done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["status"] == "could_not_ask"
    assert "no connection" in found["reasons"][0]


@pytest.mark.slow  # a run of Ansible
def test_answers_to_compare_with_later_are_asked_twice(tmp_path: Path) -> None:
    chosen = {"ansible_connection": "local", "ansible_become": False, "quality_baseline": True}
    done = run_playbook(
        "playbooks/quality.yml",
        *("-i", "inventory/h100x4", "--check", "-e", json.dumps(chosen)),
        environment={"XDG_STATE_HOME": str(tmp_path / "state")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "would be asked twice" in done.stdout
