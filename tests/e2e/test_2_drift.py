# SPDX-License-Identifier: Apache-2.0
"""verify.yml on the cluster that runs: it finds what left its pin on one host and nothing else, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import HOSTS, Cluster, Outcome

LIMITS = "/etc/security/limits.d/zz-firstlight.conf"
CONTENT = {"pass", "not_applicable"}


def verify(cluster: Cluster, report: Path) -> tuple[Outcome, list[dict[str, Any]]]:
    """Run it, and read its report."""
    outcome = cluster.run(
        f".venv/bin/ansible-playbook playbooks/verify.yml -i inventory/lab -e verify_report={report}", timeout=300
    )
    assert all(counts["changed"] == 0 for counts in outcome.recap.values()), outcome.output
    return outcome, json.loads(report.read_text(encoding="utf-8"))


def test_drift_is_found_where_it_is_and_says_by_what(cluster: Cluster, results: dict[str, Any], tmp_path: Path) -> None:
    report = tmp_path / "records.json"
    right, records = verify(cluster, report)
    assert right.status == 0, right.output
    assert {record["verdict"] for record in records} == CONTENT, "and what a GB10 has not is not applicable"
    assert {"gpu.count", "kernel.xid"} <= {record["id"] for record in records if record["verdict"] == "pass"}
    assert {record["host"] for record in records} == set(HOSTS)
    token = cluster.node("spark0", "cat /etc/firstlight/cluster.token").output.strip()
    assert token not in report.read_text(encoding="utf-8")
    ping = cluster.run(".venv/bin/ansible cluster -i inventory/lab -m ping")
    results["verify of four hosts, in pings of the same four"] = round(right.seconds / ping.seconds, 1)

    held = next((record["id"].partition(".")[2] for record in records if record["id"].startswith("hold.")), "docker.io")
    pinned = any(record["id"] == f"hold.{held}" for record in records)
    try:
        cluster.node("spark1", f"cp -p {LIMITS} /root/limits")
        cluster.node("spark1", f"chmod 0600 {LIMITS}")
        cluster.node("spark1", f"apt-mark unhold {held}")
        drifted, records = verify(cluster, report)
    finally:
        cluster.node("spark1", f"mv /root/limits {LIMITS}")
        if pinned:
            cluster.node("spark1", f"apt-mark hold {held}")
    assert drifted.status != 0
    wrong = {(record["host"], record["id"]): record for record in records if record["verdict"] not in CONTENT}
    expected = {("spark1", f"file.{LIMITS}")} | ({("spark1", f"hold.{held}")} if pinned else set())
    assert set(wrong) == expected
    assert wrong["spark1", f"file.{LIMITS}"]["observed"] == {"mode": "0600"}
    assert all(record["remedy"] == "run site.yml" and record["by"] for record in wrong.values())
    assert "spark1 is not as the plan has it" in drifted.output
    assert "spark0 is not" not in drifted.output
