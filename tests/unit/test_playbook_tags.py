# SPDX-License-Identifier: Apache-2.0
"""The tags of the phases: in the playbooks, in the documentation, and what `--tags` selects."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RACKS = ROOT / "playbooks" / "prepare_racks.yml"


def documented() -> dict[str, str]:
    """Phase to tag, as docs/site.md has them."""
    rows = re.findall(r"(?m)^\| ([A-Z][\w ]+) \| `(\w+)` \|", (ROOT / "docs" / "site.md").read_text(encoding="utf-8"))
    return dict(rows)


def site(*arguments: str) -> str:
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        "site.yml",
        "-i",
        "inventory/spark4",
        *arguments,
    ]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=100).stdout


@pytest.mark.slow  # reads every playbook and task of the bring-up
def test_every_phase_has_the_tag_that_is_documented() -> None:
    listed = re.findall(r"(?m)^  play #\d+ \(\w+\): (.+?)\tTAGS: \[(\w*)\]", site("--list-tags"))
    assert dict(listed) == documented()
    assert len(listed) == len(documented())


def test_racks_are_prepared_by_the_same_tags() -> None:
    plays = {play["name"]: play["tags"] for play in yaml.safe_load(RACKS.read_text(encoding="utf-8"))}
    assert plays.pop("Roll call") == ["always"]
    assert plays == {name: [documented()[name]] for name in plays}


@pytest.mark.slow  # reads every playbook and task of the bring-up
def test_one_phase_runs_with_what_every_phase_needs() -> None:
    shown = site("--list-tasks", "--tags", "fabric")
    plays = re.split(r"(?m)^  play #\d+ \(\w+\): ", shown)[1:]
    with_tasks = [play.partition("\t")[0] for play in plays if re.search(r"(?m)^      \S", play.partition("tasks:")[2])]
    assert with_tasks == ["Plan", "Observe", "Preflight", "Fabric"]
