# SPDX-License-Identifier: Apache-2.0
"""Every playbook that changes a cluster takes its lease before anything else on a host; none that only looks does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HOST_KEYS, RESULTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import INTENT_KEYS

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
PLAYBOOK, TASKS, LEASE = "ansible.builtin.import_playbook", "ansible.builtin.import_tasks", "tasks/lease.yml"
LOOK = ("verify", "status", "logs", "collect", "plan", "bench_verdict", "quality")
CHANGE = (
    *(
        "site",
        "prepare",
        "serve",
        "build_image",
        "repin",
        "switch_model",
        "restart",
        "bench",
    ),
    *("drain", "uncordon", "teardown", "add_nodes", "replace_node", "remove_node"),
)
HARMLESS = (
    *("ansible.builtin.assert", "ansible.builtin.debug", "ansible.builtin.set_fact", "ansible.builtin.copy"),
    *("ansible.builtin.wait_for_connection", "firstlight.cluster.plan", "firstlight.cluster.observe"),
)
"""Tasks of the controller alone, and such that only look."""


def tasks(name: str) -> list[dict[str, Any]]:
    """The tasks of a playbook and of those that it imports, in order."""
    found: list[dict[str, Any]] = []
    for play in yaml.safe_load((PLAYBOOKS / f"{name}.yml").read_text()):
        imported = play.get(PLAYBOOK, "").rpartition(".")[2]
        found += tasks(imported) if imported else play["tasks"]
    return found


@pytest.mark.hostile
@pytest.mark.parametrize("name", CHANGE)
def test_the_lease_comes_first(name: str) -> None:
    found = tasks(name)
    leases = [number for number, task in enumerate(found) if task.get(TASKS) == LEASE]
    assert leases, "it takes no lease"
    before = [task for task in found[: leases[0]] if not set(task) & set(HARMLESS)]
    assert before == []


@pytest.mark.parametrize("name", LOOK)
def test_who_only_looks_takes_none(name: str) -> None:
    assert not [task for task in tasks(name) if task.get(TASKS) == LEASE]


def test_no_playbook_is_forgotten() -> None:
    """The others are parts of these: they have no plan of their own."""
    alone = {path.stem for path in PLAYBOOKS.glob("*.yml") if "firstlight.cluster.plan" in path.read_text()}
    assert alone - {"collect"} <= {*CHANGE, *LOOK}


def test_no_variable_that_a_playbook_asks_for_is_refused_by_the_plan() -> None:
    texts = [path.read_text() for path in PLAYBOOKS.rglob("*.yml")]
    asked = {name for text in texts for name in re.findall(r"(firstlight_\w+) \| default", text)}
    assert {"firstlight_break_lease", "firstlight_answer_timeout"} <= asked
    assert asked <= {*INTENT_KEYS, *HOST_KEYS, *RESULTS}
