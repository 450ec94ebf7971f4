# SPDX-License-Identifier: Apache-2.0
"""What a run has to do: what differs on one host is work for all, and nothing is done where nothing differs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.work import serving_work

NOTHING = {"ray": False, "restart": False, "server": False, "any": False, "stop": False}
FILE = {"kind": "file", "key": "/etc/firstlight/supervisor.json"}
PHASE = {"kind": "group", "key": "server"}


def cluster(ray: bool = True, **of_worker: Any) -> dict[str, dict[str, Any]]:
    """Two hosts; what differs, differs on the worker."""
    pending: dict[str, list[Any]] = {"ray_cluster": [], "inference_server": [], "supervisor": []}
    roles: dict[str, Any] = {"ray_cluster": {} if ray else None, "inference_server": {}}
    head = {"plan": {"roles": roles}, "pending": pending}
    worker = {"plan": {"roles": {**roles, "inference_server": None if ray else {}}}, "pending": pending}
    return {"spark0": head, "spark1": {**worker, **of_worker}}


def test_nothing_differs() -> None:
    assert serving_work(cluster()) == NOTHING


@pytest.mark.parametrize(
    ("role", "work"),
    [
        ("ray_cluster", {"ray": True, "any": True, "stop": True}),
        ("inference_server", {"server": True, "any": True, "stop": True}),
        ("supervisor", {"any": True, "stop": True}),
    ],
)
def test_what_differs_on_one_host_is_work_for_all(role: str, work: dict[str, bool]) -> None:
    assert serving_work(cluster(pending={role: [FILE]})) == NOTHING | work


def test_a_supervisor_that_was_never_installed_is_not_stopped() -> None:
    missing = {"kind": "unit", "key": "firstlight-supervisor.service", "observed": {"load": "not-found"}}
    hosts = cluster(pending={"supervisor": [FILE, missing], "ray_cluster": [FILE]})
    assert serving_work(hosts)["stop"], "the head has one"
    bare = {host: {**facts, "pending": hosts["spark1"]["pending"]} for host, facts in hosts.items()}
    assert serving_work(bare) == NOTHING | {"ray": True, "any": True}
    unknown = {**missing, "observed": {"load": "unknown"}}
    silent = {host: {**facts, "pending": {"supervisor": [unknown]}} for host, facts in hosts.items()}
    assert serving_work(silent)["stop"]


def test_a_group_on_its_way_is_left_to_its_supervisor() -> None:
    assert serving_work(cluster(pending={"supervisor": [PHASE]})) == NOTHING


@pytest.mark.parametrize("fact", ["runtime_restarted", "ray_restarted", "venv_switched"])
def test_a_server_starts_anew_with_what_it_runs_on(fact: str) -> None:
    work = serving_work(cluster(**{fact: True}))
    assert work["restart"]
    assert work["server"]
    assert work["ray"] is (fact == "runtime_restarted")


@pytest.mark.parametrize("ray", [True, False])
def test_another_secret_runs_everything_and_so_does_a_full_run_which_stops_nobody(ray: bool) -> None:
    everything = {"ray": ray, "restart": False, "server": True, "any": True}
    assert serving_work(cluster(ray, secret_differs=True)) == everything | {"stop": True}
    assert serving_work(cluster(ray), full=True) == everything | {"stop": False}


def spread(**of_worker: Any) -> dict[str, dict[str, Any]]:
    """The same two hosts with a replica each."""
    hosts = cluster(**of_worker)
    for name, facts in hosts.items():
        facts["plan"] = {**facts["plan"], "cluster": {"profile": "ray-serve"}, "host": {"is_head": name == "spark0"}}
    return hosts


@pytest.mark.parametrize("fact", ["runtime_restarted", "ray_restarted", "venv_switched"])
def test_replicas_go_on_when_another_host_starts_anew(fact: str) -> None:
    assert not serving_work(spread(**{fact: True}))["restart"]
    hosts = spread()
    hosts["spark0"][fact] = True
    assert serving_work(hosts)["restart"]
