# SPDX-License-Identifier: Apache-2.0
"""verify.yml on a cluster that serves: it finds drift on one host and nothing else, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.support import HOSTS, Checkout, Outcome

LIMITS = "/etc/security/limits.d/zz-firstlight.conf"
CONTENT = {"pass", "not_applicable"}


def verify(cluster: Checkout, report: Path) -> tuple[Outcome, list[dict[str, Any]]]:
    """Run it, and read its report."""
    outcome = cluster.run(
        f".venv/bin/ansible-playbook playbooks/verify.yml -i inventory/lab -e verify_report={report}", timeout=300
    )
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
        mended = cluster.site()
    assert drifted.status != 0
    wrong = {(record["host"], record["id"]): record for record in records if record["verdict"] not in CONTENT}
    assert set(wrong) == {("spark1", f"file.{LIMITS}"), ("spark1", f"hold.{held}")}
    assert wrong["spark1", f"file.{LIMITS}"]["observed"] == {"mode": "0600"}
    assert all(record["remedy"] == "run site.yml" and record["by"] for record in wrong.values())
    assert "spark1 is not as the plan has it" in drifted.output
    assert "spark0 is not" not in drifted.output

    assert mended.status == 0, mended.output[-6000:]
    assert {host for host in HOSTS if mended.recap[host]["changed"]} == {"spark1"}
    assert cluster.node("spark1", f"stat -c %a {LIMITS}").output.split()[-1] == "644"
    assert held in cluster.node("spark1", "apt-mark showhold").output.split()
