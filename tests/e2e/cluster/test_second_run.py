# SPDX-License-Identifier: Apache-2.0
"""A converged cluster of four: run again, run in full, checked, and with a host that does not answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.lease import BEAT_SECONDS

from tests.e2e.support import HOSTS, Checkout, Outcome

FULL = "-e firstlight_full=true"
PLAIN = "ANSIBLE_STDOUT_CALLBACK=default "
NO_SHARED_CONNECTION = {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o ControlPath=none"}


def assert_nothing_changed(outcome: Outcome) -> None:
    assert outcome.status == 0, outcome.output[-6000:]
    assert set(outcome.recap) >= set(HOSTS), outcome.output[-3000:]
    for host in HOSTS:
        assert outcome.recap[host]["changed"] == 0, outcome.output[-6000:]
        assert outcome.recap[host]["failed"] == 0


def readme_run(cluster: Checkout, *words: str) -> Outcome:
    """The README's run of site.yml on the lab with exactly these further words."""
    wanted = " ".join([".venv/bin/ansible-playbook site.yml -i inventory/lab", *words])
    return next(outcome for outcome in cluster.outcomes if outcome.command.removeprefix(PLAIN) == wanted)


def test_a_second_run_changes_nothing_and_is_far_cheaper(cluster: Checkout, results: dict[str, Any]) -> None:
    """The README runs both, one after the other."""
    again, full = readme_run(cluster), readme_run(cluster, FULL)
    assert_nothing_changed(again)
    assert_nothing_changed(full)
    results["full run / re-run, wall time"] = round(full.seconds / again.seconds, 2)
    results["full run / re-run, processor time of the controller"] = round(full.cpu / again.cpu, 2)
    results["re-run seconds"] = round(again.seconds, 1)
    for host in HOSTS:
        assert again.recap[host]["ok"] < full.recap[host]["ok"] / 3
    assert full.cpu > 1.5 * again.cpu


def test_check_mode_with_diff_reports_no_change(cluster: Checkout) -> None:
    assert_nothing_changed(readme_run(cluster, "--check", "--diff"))


def test_ray_and_the_server_listen_where_the_plan_says(cluster: Checkout) -> None:
    listening = cluster.node("spark0", "ss -ltnH").output
    assert "127.0.0.1:290" in listening
    assert "0.0.0.0:8265" not in listening
    nodes = cluster.node("spark0", "docker exec firstlight-ray ray status").output
    assert nodes.count("node_") >= len(HOSTS), nodes


def test_a_host_that_does_not_answer_is_named_and_nothing_is_changed(cluster: Checkout) -> None:
    assert cluster.node("spark2", "systemctl stop ssh.service").status == 0
    try:
        command = f".venv/bin/ansible-playbook site.yml -i inventory/lab {FULL}"
        outcome = cluster.run(command, env=NO_SHARED_CONNECTION)
    finally:
        cluster.inside("spark2", "systemctl start ssh.service")
    assert outcome.status != 0
    assert "spark2 does not answer SSH" in outcome.output
    assert sum(counts["changed"] for counts in outcome.recap.values()) == 0
    assert outcome.recap["spark2"]["unreachable"] == 1


@dataclass(frozen=True)
class Again:
    """A run that has nothing to do, and what was seen of it."""

    outcome: Outcome
    module_runs: list[int]
    timings: dict[str, Any]


def logins(cluster: Checkout) -> list[int]:
    """How often somebody has logged in to each node, as its sshd counts."""
    command = '"journalctl --sync; journalctl -u ssh -o cat | grep -c Accepted"'
    return [int(cluster.node(host, command).output.split()[-1]) for host in HOSTS]


@pytest.fixture(scope="module")
def again(cluster: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Again:
    """Without a shared connection every module run is a login of its own, which nodes count."""
    path = tmp_path_factory.mktemp("again") / "timings.json"
    before = logins(cluster)
    command = ".venv/bin/ansible-playbook site.yml -i inventory/lab"
    outcome = cluster.run(command, env={**NO_SHARED_CONNECTION, "FIRSTLIGHT_TIMINGS": str(path)})
    cluster.wait_for_lease()
    runs = [late - early - 1 for early, late in zip(before, logins(cluster), strict=True)]  # counting logs in, too
    return Again(outcome, runs, json.loads(path.read_text()) if path.exists() else {})


def test_a_second_run_is_one_module_run_a_host(again: Again) -> None:
    assert_nothing_changed(again.outcome)
    head, *others = again.module_runs
    assert others == [1, 1, 1], "one observation each"
    beats = int(again.outcome.seconds // BEAT_SECONDS) + 1
    assert 4 <= head <= 4 + beats, "on the head also the completion, and the lease that is taken, kept and given back"


def test_the_phase_times_are_recorded(again: Again, results: dict[str, Any]) -> None:
    phases = again.timings["phases"]
    assert [phase["name"] for phase in phases][:2] == ["Plan", "Observe"]
    results["re-run phases"] = {phase["name"]: round(phase["seconds"], 1) for phase in phases}
