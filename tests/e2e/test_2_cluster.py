# SPDX-License-Identifier: Apache-2.0
"""A converged cluster of four: run again, run in full, checked, broken, interrupted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import HOSTS, Cluster, Outcome

FULL = "-e firstlight_full=true"
PLAIN = "ANSIBLE_STDOUT_CALLBACK=default "
NO_SHARED_CONNECTION = {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o ControlPath=none"}
# The keeper first: it would bring the others back.
SERVER_UNITS = "firstlight-keeper.service firstlight-server.service firstlight-ray.service"
# Those in which most is half done. Not Weights: what a download that was cut off leaves is where the scenario of that
# role begins. The others are one module, which writes each thing whole.
PHASES = ("Container runtime", "Fabric", "Image", "Serve")
TOLD_ALL = ("-vvv", "--diff")


def assert_nothing_changed(outcome: Outcome) -> None:
    assert outcome.status == 0, outcome.output[-6000:]
    assert set(outcome.recap) >= set(HOSTS), outcome.output[-3000:]
    for host in HOSTS:
        assert outcome.recap[host]["changed"] == 0, outcome.output[-6000:]
        assert outcome.recap[host]["failed"] == 0


def readme_run(cluster: Cluster, *words: str) -> Outcome:
    """The README's run of site.yml on the lab with exactly these further words."""
    wanted = " ".join([".venv/bin/ansible-playbook site.yml -i inventory/lab", *words])
    return next(outcome for outcome in cluster.outcomes if outcome.command.removeprefix(PLAIN) == wanted)


def test_a_second_run_changes_nothing_and_is_far_cheaper(cluster: Cluster, results: dict[str, Any]) -> None:
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


def test_check_mode_with_diff_reports_no_change(cluster: Cluster) -> None:
    assert_nothing_changed(readme_run(cluster, "--check", "--diff"))


def test_ray_and_the_server_listen_where_the_plan_says(cluster: Cluster) -> None:
    listening = cluster.node("spark0", "ss -ltnH").output
    assert "127.0.0.1:8000" in listening
    assert "0.0.0.0:8265" not in listening
    nodes = cluster.node("spark0", "docker exec firstlight-ray ray status").output
    assert nodes.count("node_") >= len(HOSTS), nodes


def test_a_host_that_does_not_answer_is_named_and_nothing_is_changed(cluster: Cluster) -> None:
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


def planned_files(cluster: Cluster) -> list[str]:
    """Every file that the plan puts on some node, but what came with the node's packages."""
    shown = cluster.run(".venv/bin/firstlight plan -i inventory/lab --json 2>/dev/null")
    assert shown.status == 0, shown.output
    hosts = json.loads(shown.output)["hosts"].values()
    states = [state for host in hosts for role, state in host["desired"].items() if role != "nvidia_driver"]
    return sorted({path for state in states for kind in ("files", "json_files") for path in state.get(kind, {})})


def wipe(cluster: Cluster) -> None:
    """Take from every node what the run made, so that the next run starts from the factory state."""
    steps = (
        f"systemctl disable --now {SERVER_UNITS} 2>/dev/null",
        f"rm -rf /var/lib/firstlight /etc/firstlight {' '.join(planned_files(cluster))}",
        "systemctl daemon-reload",
        "netplan apply",
        "systemctl restart docker",
        "docker ps -aq | xargs -r docker rm -f",
        "sysctl -q -w vm.swappiness=60",
    )
    cluster.every_node(f"'{'; '.join(steps)}'")
    # The image of one node: taking it from all of them would only take longer.
    assert cluster.node("spark3", "'docker image ls -q | sort -u | xargs docker rmi -f'").status == 0


def workers_of(clone: Path) -> list[int]:
    """Ansible's processes from this clone: its workers lead sessions of their own and outlive a killed parent."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(clone) in command and "ansible-playbook" in command:
            found.append(int(directory.name))
    return found


def interrupt_at(cluster: Cluster, phase: str, log: Path) -> bool:
    """Start the run and kill it, all of it, once this phase has started. False when it ended before."""
    with log.open("w") as output:
        process = subprocess.Popen(
            [cluster.clone / ".venv/bin/ansible-playbook", "site.yml", "-i", "inventory/lab", *TOLD_ALL],
            cwd=cluster.clone,
            env=cluster.env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + 600
        while process.poll() is None and time.monotonic() < deadline:
            if f"==> {phase}" in log.read_text():
                time.sleep(2)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return True
            time.sleep(0.2)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return False


@dataclass(frozen=True)
class Again:
    """A run on the nodes that were rebuilt, and what was seen of it."""

    outcome: Outcome
    module_runs: list[int]
    timings: dict[str, Any]


@pytest.fixture(scope="module")
def rebuilt(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """The nodes as from the factory, and runs that tell all: one killed in each of those phases, and one that ends."""
    wipe(cluster)
    runs = []
    for phase in PHASES:
        log = tmp_path_factory.mktemp("interrupted") / "log"
        reached = interrupt_at(cluster, phase, log)
        assert reached, f"{phase} was never reached:\n{log.read_text()[-4000:]}"
        runs.append(Outcome(phase, -signal.SIGKILL, log.read_text(), 0))
    runs.append(cluster.site(*TOLD_ALL))
    for pid in workers_of(cluster.clone):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return runs


def logins(cluster: Cluster) -> list[int]:
    """How often somebody has logged in to each node, as its sshd counts."""
    command = '"journalctl --sync; journalctl -u ssh -o cat | grep -c Accepted"'
    return [int(cluster.node(host, command).output.split()[-1]) for host in HOSTS]


@pytest.fixture(scope="module")
def again(cluster: Cluster, rebuilt: list[Outcome], tmp_path_factory: pytest.TempPathFactory) -> Again:
    """The next run. Without a shared connection every module run is a login of its own, which nodes count."""
    path = tmp_path_factory.mktemp("again") / "timings.json"
    before = logins(cluster)
    command = ".venv/bin/ansible-playbook site.yml -i inventory/lab"
    outcome = cluster.run(command, env={**NO_SHARED_CONNECTION, "FIRSTLIGHT_TIMINGS": str(path)})
    runs = [late - early - 1 for early, late in zip(before, logins(cluster), strict=True)]  # counting logs in, too
    return Again(outcome, runs, json.loads(path.read_text()) if path.exists() else {})


def test_runs_that_were_interrupted_are_finished_by_the_next(rebuilt: list[Outcome], again: Again) -> None:
    assert rebuilt[-1].status == 0, rebuilt[-1].output[-6000:]
    assert "-tp4" in rebuilt[-1].output
    assert_nothing_changed(again.outcome)


def test_a_second_run_is_one_module_run_a_host(again: Again) -> None:
    assert again.module_runs == [2, 1, 1, 1], "one observation each, and the completion gate on the head"


def test_the_phase_times_are_recorded(again: Again, results: dict[str, Any]) -> None:
    phases = again.timings["phases"]
    assert [phase["name"] for phase in phases][:2] == ["Plan", "Observe"]
    results["re-run phases"] = {phase["name"]: round(phase["seconds"], 1) for phase in phases}


def test_secrets_are_private_and_nowhere_in_the_output(cluster: Cluster, rebuilt: list[Outcome]) -> None:
    """Those runs made the secrets, and said every word they had."""
    for host in HOSTS:
        assert cluster.node(host, "stat -c %a%U /etc/firstlight/cluster.token").output.split()[-1] == "600root"
    token = cluster.node("spark0", "cat /etc/firstlight/cluster.token").output.split()[-1]
    key = cluster.node("spark0", "cat /etc/firstlight/server.env").output.split("=")[-1].strip()
    assert len(token) >= 32
    assert len(key) >= 32
    argv = "".join(cluster.node(host, '\'cat /proc/[0-9]*/cmdline | tr "\\0" " "\'').output for host in HOSTS)
    told = [run.output for run in rebuilt]
    assert any("cluster.token" in text for text in told), "they tell what they do"
    for text in [*told, argv]:
        assert token not in text
        assert key not in text
