# SPDX-License-Identifier: Apache-2.0
"""Many hosts at once: each answer comes from its own process, and one that hangs costs nobody else anything."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, cast

import pytest
import yaml

from firstlight.connection import Connection
from firstlight.verifying import _history, at_once
from tests.unit.ansible_runs import ROOT


@dataclass
class Host:
    host: str
    seconds: float = 60


def ask(hosts: list[Host], work: Any) -> dict[str, dict[str, Any]]:
    return at_once(cast("list[Connection]", hosts), work)


@pytest.mark.slow  # a process each
def test_answers_come_in_the_order_of_the_hosts_and_from_other_processes() -> None:
    hosts = [Host(f"h{number}") for number in range(80)]  # more than are asked at a time
    found = ask(hosts, lambda one: {"answer": [one.host, os.getpid()]})
    assert list(found) == [one.host for one in hosts]
    assert all(found[one.host]["answer"][0] == one.host for one in hosts)
    assert len({answer["answer"][1] for answer in found.values()} - {os.getpid()}) == len(hosts)


@pytest.mark.slow  # it waits for a host that hangs
def test_a_host_that_hangs_is_given_up_and_one_that_dies_is_told() -> None:
    def work(one: Any) -> dict[str, Any]:
        if one.host == "hangs":
            time.sleep(600)
        if one.host == "dies":
            os._exit(3)
        return {"answer": 1}

    began = time.monotonic()
    found = ask([Host("hangs", 1), Host("dies"), Host("well")], work)
    assert time.monotonic() - began < 30
    assert found["hangs"] == {"problem": "Timed out after 1 second(s)."}
    assert "without an answer" in found["dies"]["problem"]
    assert found["well"] == {"answer": 1}


def test_the_logs_are_asked_for_as_long_as_by_the_playbook() -> None:
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/verify.yml").read_text(encoding="utf-8"))
    (asked,) = (task["firstlight.cluster.observe"] for task in tasks if "firstlight.cluster.observe" in task)
    assert asked["timeout"] == _history({})["timeout"]
