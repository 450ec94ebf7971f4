# SPDX-License-Identifier: Apache-2.0
"""The tags of the phases: in the playbooks, in the documentation, and what `--tags` selects."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.unit.ansible_runs import run_playbook

ROOT = Path(__file__).resolve().parents[2]


def documented() -> dict[str, str]:
    """Phase to tag, as docs/site.md has them."""
    rows = re.findall(r"(?m)^\| ([A-Z][\w -]+) \| `(\w+)` \|", (ROOT / "docs" / "site.md").read_text(encoding="utf-8"))
    return dict(rows)


@cache
def site(*arguments: str) -> str:
    done = run_playbook("site.yml", "-i", "inventory/spark4", *arguments)
    done.check_returncode()
    return done.stdout


@pytest.mark.slow  # reads every playbook and task of the bring-up
def test_every_phase_has_the_tag_that_is_documented() -> None:
    listed = re.findall(r"(?m)^  play #\d+ \(\w+\): (.+?)\tTAGS: \[(\w*)\]", site("--list-tags"))
    assert dict(listed) == documented()
    assert len(listed) == len(documented())


def plays_with_tasks(shown: str) -> dict[str, list[set[str]]]:
    """Plays that have any task to run, and the tags of each task."""
    plays = re.split(r"(?m)^  play #\d+ \(\w+\): ", shown)[1:]
    found = {
        play.partition("\t")[0]: [
            set(tags.split(", "))
            for tags in re.findall(r"(?m)^      \S.*\tTAGS: \[(.*)\]$", play.partition("tasks:")[2])
        ]
        for play in plays
    }
    return {name: tags for name, tags in found.items() if tags}


@pytest.mark.slow  # reads every playbook and task of the bring-up
def test_one_phase_runs_with_what_every_phase_needs() -> None:
    shown = plays_with_tasks(site("--list-tasks", "--tags", "fabric"))
    assert list(shown) == ["Plan", "Observe", "Preflight", "Fabric", "Require all hosts"]


@pytest.mark.slow  # reads every playbook and task of the bring-up
def test_every_tag_runs_its_phase_and_what_every_phase_needs_and_nothing_else() -> None:
    """A task with a tag of its own would be run by another tag, or left out by its phase's."""
    listed = plays_with_tasks(site("--list-tasks"))
    assert listed.keys() == documented().keys()
    for phase, tags in listed.items():
        assert tags == [{documented()[phase]}] * len(tags), phase
    needed = [phase for phase, tag in documented().items() if tag == "always"]
    assert needed == ["Plan", "Observe", "Preflight", "Require all hosts"]
    assert list(documented())[:3] == needed[:3], "before any phase that uses what they found"
