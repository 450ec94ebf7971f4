# SPDX-License-Identifier: Apache-2.0
"""`firstlight up` and `firstlight verify` are ansible-playbook in fewer words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from firstlight import playbooks
from firstlight.cli import main
from firstlight.commands import up
from firstlight.errors import DONE, FAILED, REFUSED
from firstlight.playbooks import PLAYBOOKS

ROOT = Path(__file__).resolve().parents[3]
INVENTORY = str(ROOT / "inventory" / "spark4")


def recorded(monkeypatch: pytest.MonkeyPatch, module: ModuleType, status: int) -> list[list[str]]:
    """What ansible-playbook would be called with."""
    ran: list[list[str]] = []

    def run_playbook(words: list[str]) -> int:
        ran.append(words)
        return status

    monkeypatch.setattr(module, "run_playbook", run_playbook)
    return ran


@pytest.mark.parametrize(("command", "playbook"), [("up", "site.yml"), ("verify", "verify.yml")])
def test_the_playbook_gets_what_the_command_was_given(
    command: str, playbook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = recorded(monkeypatch, up, DONE)
    words = [
        "-i",
        INVENTORY,
        "-l",
        "spark-beta",
        "-C",
        "-D",
        "-e",
        "x=1",
        "--tags",
        "fabric",
        "--vault-password-file",
        "v",
    ]
    assert main([command, *words, "-vv"]) == DONE
    assert main([command, "-i", INVENTORY]) == DONE
    path = str(PLAYBOOKS / playbook)
    assert Path(path).is_file()
    assert ran == [
        [path, "-i", INVENTORY, "--limit", "spark-beta", "-e", "x=1", "--vault-password-file", "v"]
        + ["--tags=fabric", "--check", "--diff", "-vv"],
        [path, "-i", INVENTORY],
    ]


def test_a_re_pin_goes_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = recorded(monkeypatch, playbooks, FAILED)
    assert main(["repin", "--stack", "next", "-i", INVENTORY, "-e", "x=1"]) == FAILED
    assert ran == [[str(PLAYBOOKS / "repin.yml"), "-i", INVENTORY, "-e", "x=1", "-e", '{"stack": "next"}']]


def test_an_inventory_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "-i", "/nowhere"]) == REFUSED
    assert "the inventory /nowhere does not exist" in capsys.readouterr().err


@pytest.mark.slow  # a run of Ansible each
@pytest.mark.parametrize("command", ["up", "verify"])
def test_it_runs_outside_a_checkout_and_a_failure_is_1(command: str, tmp_path: Path) -> None:
    """The hosts are nowhere and the plan has no model: whatever stops it, Ansible's own 2 or 4 is 1 here."""
    hosts = {"cluster": {"children": {"head": {"hosts": {"gone": {"ansible_host": "127.0.0.1", "ansible_port": 1}}}}}}
    (tmp_path / "hosts.yml").write_text(json.dumps(hosts), encoding="utf-8")
    program = str(Path(sys.executable).with_name("firstlight"))
    done = subprocess.run(
        [program, command, "-i", "hosts.yml"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "firstlight_model" in done.stdout + done.stderr
