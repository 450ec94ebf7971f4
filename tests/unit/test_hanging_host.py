# SPDX-License-Identifier: Apache-2.0
"""A host that takes the connection and hangs in every command ends a run with a message, and keeps nobody waiting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.ansible_runs import ROOT, run_playbook

pytestmark = pytest.mark.hostile

FIRST = {
    "tasks/lease.yml": "firstlight.cluster.cluster_lease",
    "tasks/compare.yml": "firstlight.cluster.compare",
    "tasks/verify.yml": "firstlight.cluster.compare",
    "status.yml": "firstlight.cluster.serving_status",
    "logs.yml": "firstlight.cluster.serving_status",
    "collect.yml": "firstlight.cluster.gpu_info",
    "repin.yml": "firstlight.cluster.repin",
}
"""What a run asks of a host before anything else."""


def found(document: Any, module: str) -> list[dict[str, Any]]:
    """Every task of this module."""
    if isinstance(document, list):
        return [task for one in document for task in found(one, module)]
    if not isinstance(document, dict):
        return []
    return [document] if module in document else [task for one in document.values() for task in found(one, module)]


@pytest.mark.parametrize(("file", "module"), FIRST.items())
def test_the_first_question_has_a_limit(file: str, module: str) -> None:
    tasks = found(yaml.safe_load((ROOT / "playbooks" / file).read_text()), module)
    assert "firstlight_answer_timeout" in tasks[0]["timeout"]


@pytest.mark.slow  # a run of Ansible
def test_it_is_told_and_the_run_ends(tmp_path: Path) -> None:
    hangs = tmp_path / "python3"
    hangs.write_text("#!/bin/sh\nexec sleep 100\n")
    hangs.chmod(0o755)
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": str(hangs),
        "firstlight_answer_timeout": 2,
        "firstlight_plan": {"observe": {}, "notes": []},
    }
    tasks = [{"ansible.builtin.import_tasks": f"{ROOT}/playbooks/tasks/compare.yml"}]
    play = tmp_path / "play.yml"
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "vars": variables, "tasks": tasks}]))
    run = run_playbook("-i", "node,", str(play))
    assert run.returncode == 2
    told = " ".join(run.stdout.split())
    assert "accepted the connection and then did nothing for 2 s, expected an answer: look for a disk" in told
