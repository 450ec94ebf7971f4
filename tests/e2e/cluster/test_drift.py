# SPDX-License-Identifier: Apache-2.0
"""verify.yml on a cluster that serves: it finds drift on one host and nothing else, and changes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import HOSTS, Checkout, Outcome

LIMITS = "/etc/security/limits.d/zz-firstlight.conf"
CONTENT = {"pass", "not_applicable"}
NETPLAN = "/etc/netplan/40-cx7.yaml"
TIMING = re.compile(r", [0-9.e-]+ ms$")
"""How long a ping took is another time in every run."""
NO_SHARED_CONNECTION = {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o ControlPath=none"}


def verify(cluster: Checkout, report: Path, env: dict[str, str] | None = None) -> tuple[Outcome, list[dict[str, Any]]]:
    """Run it, and read its report."""
    command = f".venv/bin/ansible-playbook playbooks/verify.yml -i inventory/lab -e verify_report={report}"
    outcome = cluster.run(command, timeout=300, env=env)
    assert all(counts["changed"] == 0 for counts in outcome.recap.values()), outcome.output
    return outcome, json.loads(report.read_text(encoding="utf-8"))


def test_a_right_cluster_passes_every_check(cluster: Checkout, results: dict[str, Any], tmp_path: Path) -> None:
    report = tmp_path / "records.json"
    right, records = verify(cluster, report)
    assert right.status == 0, right.output
    assert {record["verdict"] for record in records} == CONTENT, "what a GB10 does not have is not applicable"
    assert {"gpu.count", "kernel.xid"} <= {record["id"] for record in records if record["verdict"] == "pass"}
    assert {record["host"] for record in records} == set(HOSTS)
    token = cluster.node("spark0", "cat /etc/firstlight/cluster.token").output.strip()
    assert token not in report.read_text(encoding="utf-8")
    ping = cluster.run(".venv/bin/ansible cluster -i inventory/lab -m ping")
    results["verify of four hosts, in pings of the same four"] = round(right.seconds / ping.seconds, 1)


def test_drift_is_named_with_its_host_and_mended_by_a_run(cluster: Checkout, tmp_path: Path) -> None:
    held = cluster.node("spark1", "apt-mark showhold").output.split()[0]
    cluster.node("spark1", f"chmod 0600 {LIMITS}")
    cluster.node("spark1", f"apt-mark unhold {held}")
    try:
        drifted, records = verify(cluster, tmp_path / "records.json")
    finally:
        fixed = cluster.site()
    assert drifted.status != 0
    wrong = {(record["host"], record["id"]): record for record in records if record["verdict"] not in CONTENT}
    assert set(wrong) == {("spark1", f"file.{LIMITS}"), ("spark1", f"hold.{held}")}
    assert wrong["spark1", f"file.{LIMITS}"]["observed"] == {"mode": "0600"}
    assert all(record["remedy"] == "run site.yml" and record["by"] for record in wrong.values())
    assert "spark1 differs from its plan" in drifted.output
    assert "spark0 is not" not in drifted.output

    assert fixed.status == 0, fixed.output[-6000:]
    assert {host for host in HOSTS if fixed.recap[host]["changed"]} == {"spark1"}
    assert cluster.node("spark1", f"stat -c %a {LIMITS}").output.split()[-1] == "644"
    assert held in cluster.node("spark1", "apt-mark showhold").output.split()


def timeless(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "observed": TIMING.sub("", str(one["observed"]))} for one in records]


def command(cluster: Checkout) -> tuple[Outcome, list[dict[str, Any]]]:
    """`firstlight verify`, and what it says for programs."""
    outcome = cluster.run(
        ".venv/bin/firstlight verify -i inventory/lab --json 2>/dev/null", timeout=300, env=NO_SHARED_CONNECTION
    )
    return outcome, json.loads(outcome.output)


@pytest.mark.extended  # two looks at all four; unit tests compare the two, too
def test_the_command_agrees_with_the_playbook_on_a_right_cluster(
    cluster: Checkout, results: dict[str, Any], tmp_path: Path
) -> None:
    playbook, expected = verify(cluster, tmp_path / "records.json", NO_SHARED_CONNECTION)
    asked, found = command(cluster)
    assert (playbook.status, asked.status) == (0, 0)
    assert timeless(found) == timeless(expected)
    results["firstlight verify / verify.yml, wall time"] = round(asked.seconds / playbook.seconds, 2)
    results["firstlight verify / verify.yml, processor time"] = round(asked.cpu / playbook.cpu, 2)


@pytest.mark.extended  # as above, and both wait for a host that is down
def test_the_command_agrees_with_the_playbook_on_drift_and_a_host_that_is_down(
    cluster: Checkout, tmp_path: Path
) -> None:
    assert cluster.node("spark1", "sysctl -w vm.swappiness=61").status == 0
    assert cluster.node("spark2", f"\"cp -p {NETPLAN} /root/kept && echo '# mine' >> {NETPLAN}\"").status == 0
    assert cluster.node("spark3", "systemctl stop ssh.service").status == 0
    try:
        playbook, expected = verify(cluster, tmp_path / "records.json", NO_SHARED_CONNECTION)
        asked, found = command(cluster)
    finally:
        cluster.inside("spark3", "systemctl start ssh.service")
        cluster.node("spark2", f"mv /root/kept {NETPLAN}")
        cluster.node("spark1", "sysctl -w vm.swappiness=1")
    assert playbook.status != 0
    assert asked.status == 1
    assert timeless(found) == timeless(expected)
    wrong = {(record["host"], record["id"]) for record in found if record["verdict"] not in CONTENT}
    assert {("spark1", "sysctl.vm.swappiness"), ("spark2", f"file.{NETPLAN}"), ("spark3", "host.answer")} <= wrong


@pytest.mark.extended  # a second drift, fixed by the same playbook
def test_up_looks_first_and_runs_no_playbook_on_a_right_cluster(cluster: Checkout) -> None:
    right = cluster.run(".venv/bin/firstlight up -i inventory/lab", timeout=300)
    assert right.status == 0, right.output
    assert "site.yml was not run" in right.output
    assert "answered" in right.output
    assert cluster.node("spark1", "sysctl -w vm.swappiness=61").status == 0
    fixed = cluster.run(".venv/bin/firstlight up -i inventory/lab", timeout=900)
    assert fixed.status == 0, fixed.output[-6000:]
    assert "site.yml runs: spark1 differs from its plan: sysctl.vm.swappiness" in fixed.output
    assert {host for host in HOSTS if fixed.recap[host]["changed"]} == {"spark1"}
