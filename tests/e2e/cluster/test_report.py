# SPDX-License-Identifier: Apache-2.0
"""`firstlight report` of a cluster that serves, and of the same one with a sick node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import HOSTS, Checkout, Outcome


def reported(cluster: Checkout, page: Path, *more: str) -> tuple[Outcome, dict[str, Any]]:
    """Make one, and read the document that is kept of it."""
    made = cluster.run(f".venv/bin/firstlight report -i inventory/lab -o {page} {' '.join(more)}", timeout=600)
    assert all(counts["changed"] == 0 for counts in made.recap.values()), made.output
    told = cluster.run(f".venv/bin/firstlight report --from {page} -o {page}.again --json", timeout=60)
    assert Path(f"{page}.again").read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    return made, json.loads(told.output[told.output.index("{") :])


def named(document: dict[str, Any], kind: str) -> set[tuple[str, str]]:
    return {(one["where"], one["check"]) for one in document["verdict"][kind]}


@pytest.mark.extended  # two reports of four nodes; the page is tested from records as well
def test_four_nodes_and_then_one_of_them_is_sick(cluster: Checkout, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    made, document = reported(cluster, page, "--accept")
    # The lab's GPUs are played, so that nobody can try them, and nothing was measured.
    assert made.status == 3, made.output[-3000:]
    assert named(document, "reasons") == set()
    assert named(document, "missing") == {("cluster", "benchmark"), *((host, "burn-in") for host in HOSTS)}
    assert document["serving"]["verdict"] == "serving"
    # Only starts that the supervisor has made are on record, and site.yml has made the first one.
    assert all(start["seconds"] > 0 for start in document["startup"]["starts"])
    assert {one["host"] for one in document["links"]} == set(HOSTS)
    assert all(
        path["status"] == "pass" and path["ms"] > 0
        for host, peers in document["pairs"]["cells"].items()
        for peer, paths in peers.items()
        for path in paths
    )
    assert {name: one for one in document["materials"] for name in [one["name"]] if one["odd"]} == {}
    assert cluster.run(f".venv/bin/firstlight report --check {page}", timeout=60).status == 0
    text = page.read_text(encoding="utf-8")
    assert len(text) < 400_000
    for secret in ("cat /etc/firstlight/cluster.token", "cat /sys/class/net/eth0/address"):
        assert cluster.node("spark0", secret).output.strip() not in text

    cluster.run(".venv/bin/firstlight lab fault spark1 gpu_missing", timeout=60)
    try:
        ill, document = reported(cluster, page)
    finally:
        cluster.run(".venv/bin/firstlight lab fault spark1", timeout=60)
    assert ill.status == 1, ill.output[-3000:]
    assert document["verdict"]["verdict"] == "not accepted"
    assert {where for where, _ in named(document, "reasons")} == {"spark1"}
    assert "spark1: gpu" in ill.output
    worse = {(one["where"], one["kind"]) for one in document["since"]["differences"] if one["part"] == "checks"}
    assert worse == {("spark1", "worse")}
