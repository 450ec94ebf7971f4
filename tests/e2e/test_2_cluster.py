# SPDX-License-Identifier: Apache-2.0
"""A converged cluster of four: run again, run in full, checked, rebooted, broken, interrupted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import HOSTS, Cluster, Outcome

FULL = "-e firstlight_full=true"
NO_SHARED_CONNECTION = {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o ControlPath=none"}
SERVER_UNITS = "firstlight-server.service firstlight-ray.service"


def assert_nothing_changed(outcome: Outcome) -> None:
    assert outcome.status == 0, outcome.output[-6000:]
    assert set(outcome.recap) >= set(HOSTS), outcome.output[-3000:]
    for host in HOSTS:
        assert outcome.recap[host]["changed"] == 0, outcome.output[-6000:]
        assert outcome.recap[host]["failed"] == 0


def readme_run(cluster: Cluster, *words: str) -> Outcome:
    """The README's run of site.yml on the lab with exactly these further words."""
    wanted = " ".join([".venv/bin/ansible-playbook site.yml -i inventory/lab", *words])
    return next(outcome for outcome in cluster.outcomes if outcome.command == wanted)


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


def logins(cluster: Cluster) -> list[int]:
    """How often somebody has logged in to each node, as its sshd counts."""
    command = '"journalctl --sync; journalctl -u ssh -o cat | grep -c Accepted"'
    return [int(cluster.node(host, command).output.split()[-1]) for host in HOSTS]


def test_a_second_run_is_one_module_run_a_host(cluster: Cluster) -> None:
    """Counted by the nodes themselves; without a shared connection every module run is a login of its own."""
    before = logins(cluster)
    again = cluster.run(".venv/bin/ansible-playbook site.yml -i inventory/lab", env=NO_SHARED_CONNECTION)
    assert_nothing_changed(again)
    runs = [late - early - 1 for early, late in zip(before, logins(cluster), strict=True)]  # counting logs in, too
    assert runs == [2, 1, 1, 1], "one observation each, and the completion gate on the head"


def test_check_mode_with_diff_reports_no_change(cluster: Cluster) -> None:
    assert_nothing_changed(readme_run(cluster, "--check", "--diff"))


def test_secrets_are_private_and_nowhere_in_the_output(cluster: Cluster) -> None:
    for host in HOSTS:
        assert cluster.node(host, "stat -c %a%U /etc/firstlight/ray.token").output.split()[-1] == "600root"
    token = cluster.node("spark0", "cat /etc/firstlight/ray.token").output.split()[-1]
    key = cluster.node("spark0", "cat /etc/firstlight/server.env").output.split("=")[-1].strip()
    assert len(token) >= 32
    assert len(key) >= 32
    verbose = cluster.site(FULL, "-vvv", "--check", "--diff")
    assert_nothing_changed(verbose)
    argv = "".join(cluster.node(host, '\'cat /proc/[0-9]*/cmdline | tr "\\0" " "\'').output for host in HOSTS)
    for text in [verbose.output, argv, *(outcome.output for outcome in cluster.outcomes)]:
        assert token not in text
        assert key not in text


def test_ray_and_the_server_listen_where_the_plan_says(cluster: Cluster) -> None:
    listening = cluster.node("spark0", "ss -ltnH").output
    assert "127.0.0.1:8000" in listening
    assert "0.0.0.0:8265" not in listening
    nodes = cluster.node("spark0", "docker exec firstlight-ray ray status").output
    assert nodes.count("node_") >= len(HOSTS), nodes


def test_a_switch_without_jumbo_frames_is_named(cluster: Cluster) -> None:
    assert cluster.run(".venv/bin/firstlight lab fabric --mtu 1500").status == 0
    try:
        outcome = cluster.site(FULL)
    finally:
        assert cluster.run(".venv/bin/firstlight lab fabric --mtu 9000").status == 0
    assert outcome.status != 0
    assert "jumbo" in outcome.output
    assert "9216" in outcome.output
    assert sum(counts["changed"] for counts in outcome.recap.values()) == 0
    proven = cluster.site()
    assert proven.status == 0, "a proof that failed is made again by the next run"
    assert "Prove every peer on every rail" in proven.output
    assert_nothing_changed(cluster.site())


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
    assert_nothing_changed(cluster.site())


def test_a_node_survives_a_reboot(cluster: Cluster) -> None:
    """It comes back with its links plugged, its fabric configured and its driver loaded; a run mends the rest."""
    started = cluster.node("spark3", "stat -c %Y /proc/1").output.split()[-1]
    cluster.node("spark3", "systemctl reboot")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        now = cluster.node("spark3", "stat -c %Y /proc/1")
        if now.status == 0 and now.output.split()[-1] != started:
            break
        time.sleep(2)
    else:
        pytest.fail("spark3 did not come back")
    outcome = cluster.site()
    assert outcome.status == 0, outcome.output[-6000:]
    assert "192.168.100.13/24" in cluster.node("spark3", "ip -br addr show enp1s0f1np1").output
    assert "580." in cluster.node("spark3", "nvidia-smi --query-gpu=driver_version --format=csv,noheader").output
    assert_nothing_changed(cluster.site())


def wipe(cluster: Cluster) -> None:
    """Take from every node what the run made, so that the next run starts from the factory state."""
    files = (
        "/etc/systemd/system/firstlight-*",
        "/etc/netplan/40-firstlight-fabric.yaml",
        "/etc/sysctl.d/90-firstlight.conf",
        "/etc/security/limits.d/90-firstlight.conf",
        "/etc/docker/daemon.json",
        "/var/lib/firstlight",
        "/etc/firstlight",
    )
    steps = (
        f"systemctl disable --now {SERVER_UNITS} 2>/dev/null",
        f"rm -rf {' '.join(files)}",
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
            [cluster.clone / ".venv/bin/ansible-playbook", "site.yml", "-i", "inventory/lab"],
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


def test_a_run_interrupted_at_any_phase_is_finished_by_the_next(cluster: Cluster, tmp_path: Path) -> None:
    wipe(cluster)
    for phase in ("Container runtime", "Host tuning", "Fabric", "Image", "Weights", "Ray", "Serve"):
        log = tmp_path / f"{phase}.log"
        assert interrupt_at(cluster, phase, log), f"{phase} was never reached:\n{log.read_text()[-4000:]}"
    finished = cluster.site()
    for pid in workers_of(cluster.clone):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert finished.status == 0, finished.output[-6000:]
    assert "-tp4" in finished.output
    assert_nothing_changed(cluster.site())


def test_the_phase_times_are_recorded(cluster: Cluster, tmp_path: Path, results: dict[str, Any]) -> None:
    path = tmp_path / "timings.json"
    outcome = cluster.run(".venv/bin/ansible-playbook site.yml -i inventory/lab", env={"FIRSTLIGHT_TIMINGS": str(path)})
    assert_nothing_changed(outcome)
    timings = json.loads(path.read_text())
    assert [phase["name"] for phase in timings["phases"]][:2] == ["Plan", "Observe"]
    results["re-run phases"] = {phase["name"]: round(phase["seconds"], 1) for phase in timings["phases"]}
