# SPDX-License-Identifier: Apache-2.0
"""What the tools of a cluster that serves print: only its cables are wrong, and no secret is in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.support import HOSTS, Checkout


@pytest.mark.extended  # one node is collected by tests/e2e/single_node; what evaluates has unit tests
def test_a_cluster_that_serves_is_collected_and_evaluated_right(cluster: Checkout, tmp_path: Path) -> None:
    directory = tmp_path / "collection"
    collected = cluster.run(f".venv/bin/firstlight collect -i inventory/lab -o {directory}", timeout=120)
    assert collected.status == 0, collected.output
    assert all(counts["changed"] == 0 for counts in collected.recap.values()), collected.output

    manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["hosts"]) == set(HOSTS)
    for host, about in manifest["hosts"].items():
        assert about["hardware"] == "gb10"
        assert {"topo.txt", "smi-q.txt", "kernel-log.txt", "ray-status.txt"} <= set(about["files"]), host

    everything = "".join(path.read_text(encoding="utf-8") for path in directory.rglob("*.txt"))
    uuid = re.search(r"GPU-[0-9a-f-]{36}", cluster.node("spark0", "nvidia-smi -L").output)
    assert uuid, "a node that shows no GPU"
    assert uuid[0] not in everything
    assert re.search(r"GPU-[0-9a-f-]{36}", everything)
    for secret in ("cat /etc/firstlight/cluster.token", "cat /sys/class/net/eth0/address"):
        assert cluster.node("spark0", secret).output.strip() not in everything

    evaluated = cluster.run(f".venv/bin/firstlight diagnose {directory} --json", timeout=60)
    checks = json.loads(evaluated.output)["checks"]
    wrong = [check for check in checks if check["verdict"] == "fail"]
    # The lab's cables are virtual: they tell 10 Gb/s, and are rightly called slow.
    assert {check["id"] for check in wrong} <= {"port.speed"}, wrong
    assert {check["host"] for check in checks if check["verdict"] == "pass"} == set(HOSTS)
    assert evaluated.status == (1 if wrong else 0)
