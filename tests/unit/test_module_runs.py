# SPDX-License-Identifier: Apache-2.0
"""How many modules a role runs on a host that has nothing yet: each costs a third of a second, whatever it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ON_THE_CONTROLLER = {"assert", "debug", "fail", "set_fact"}
TWO_RUNS = {"copy", "template"}  # one that looks, one that writes
BESIDE = {"always", "rescue"}
NOT_ON_A_NEW_HOST = {
    "firewall": {"remove.yml"},
    "fabric_network": {"remove.yml", "Remove the lossless RoCE class"},
    "supervisor": {"stop.yml"},
    "inference_server": {
        "Check whether the API key would change", "Stop the server", "others.yml", "balancer.yml", "Start the balancer",
        "ranks_key.yml",
    },
    "monitoring": {"Stop the monitoring services that are about to change"},
    "nvidia_driver": {"hold.yml", "reboot.yml"},
    "ray_cluster": {
        "Check whether the head's token would change",
        "Stop Ray", "others.yml", "Read the digest of the head's token", "Determine why a node did not join",
        "Restart Ray on the nodes that gave up", "Wait until the restarted nodes have joined",
    },
}  # fmt: skip
BUDGET = {
    "container_runtime": 3,
    "cuda_toolkit": 2,
    "endpoint": 6,
    "fabric_network": 6,
    "firewall": 4,
    "supervisor": 5,
    "host_tuning": 1,
    "inference_server": 5,
    "monitoring": 6,
    "nvidia_driver": 4,
    "ray_cluster": 7,
}


def runs(role: Path, name: str = "main.yml") -> Iterator[tuple[str, int]]:
    """Every task of a role's tasks that runs a module, with how often it does; conditions are taken to hold."""
    yield from _runs(role, yaml.safe_load((role / "tasks" / name).read_text(encoding="utf-8")))


def _runs(role: Path, tasks: list[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    skipped = NOT_ON_A_NEW_HOST.get(role.name, set())
    for task in tasks:
        if "block" in task:
            yield from _runs(role, task["block"])
            continue
        module, arguments = next((key, value) for key, value in task.items() if key.count(".") == 2)
        short = module.rpartition(".")[2]
        if short in ("import_tasks", "include_tasks"):
            if arguments not in skipped:
                yield from runs(role, arguments)
        elif short not in ON_THE_CONTROLLER and task["name"] not in skipped:
            loop = task.get("loop")
            yield task["name"], (2 if short in TWO_RUNS else 1) * (len(loop) if isinstance(loop, list) else 1)


@pytest.mark.parametrize("role", BUDGET)
def test_a_role_runs_no_more_modules_than_it_has_to(role: str) -> None:
    found = list(runs(ROOT / "roles" / role))
    assert sum(count for _, count in found) <= BUDGET[role], found
