# SPDX-License-Identifier: Apache-2.0
"""The playbooks of day two as far as they can be looked at without a host, and the commands of their pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from firstlight.cli import build_parser
from tests.unit.ansible_runs import run_playbook

pytestmark = pytest.mark.slow  # a run of Ansible each

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = ("drain", "uncordon", "restart", "switch_model", "teardown")
PAGES = ("day2", "status", "membership")
WITHOUT_A_VALUE = ("--check",)
WITH_A_VALUE = ("-i", "-e", "--limit")


def test_each_begins_with_the_plan_and_goes_on() -> None:
    done = run_playbook("-i", "inventory/spark4", "--list-tasks", *(f"playbooks/{name}.yml" for name in PLAYBOOKS))
    assert done.returncode == 0, done.stdout + done.stderr
    listed = done.stdout.split("\nplaybook: ")[1:]
    assert len(listed) == len(PLAYBOOKS)
    for text in listed:
        plays = re.findall(r"(?m)^  play #\d+ \(\w+\): (.+?)\t", text)
        assert plays[0] == "Plan"
        assert len(plays) > 1


def shown(page: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```console\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [line.strip()[2:] for block in blocks for line in block.splitlines() if line.strip().startswith("$ ")]


@pytest.mark.parametrize(("page", "line"), [(page, line) for page in PAGES for line in shown(page)])
def test_the_commands_of_the_pages_are_understood(page: str, line: str) -> None:
    """They need hosts, which the tests in the lab have; here their options, playbooks and inventories are looked at."""
    program, *words = shlex.split(line, comments=True)
    if program == ".venv/bin/firstlight":
        assert build_parser(words[0]).parse_args(words).command == words[0]
        return
    assert program == ".venv/bin/ansible-playbook", page
    assert (ROOT / words[0]).is_file()
    rest = iter(word for word in words[1:] if word not in WITHOUT_A_VALUE)
    options = dict(zip(rest, rest, strict=True))
    assert set(options) <= set(WITH_A_VALUE)
    assert (ROOT / options["-i"] / "hosts.yml").is_file()
    if "-e" in options:
        assert options["-e"].partition("=")[0] in (ROOT / words[0]).read_text(encoding="utf-8")


def why(*words: str) -> str:
    """Why a run ends before any host: it says of none that it does not answer."""
    done = run_playbook("playbooks/switch_model.yml", "-i", "inventory/h100x4", *words)
    assert done.returncode != 0, done.stdout
    assert "unreachable=1" not in done.stdout
    return " ".join(done.stdout.split())


def test_a_model_must_be_named() -> None:
    assert "No model is named" in why()


def test_another_model_is_planned_on_paper() -> None:
    done = run_playbook("playbooks/plan.yml", "-i", "inventory/h100x8", "-e", "plan_model=llama-3.3-70b")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_model_that_nobody_knows_is_refused_before_any_host() -> None:
    assert "no-such-model" in why("-e", "model=no-such-model")
