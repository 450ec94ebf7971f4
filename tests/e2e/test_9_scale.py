# SPDX-License-Identifier: Apache-2.0
"""Racks of nodes taken to a proven fabric: what a run costs its controller, and whom a bad host stops.

FIRSTLIGHT_SCALE_HOSTS says how many. With 64 it gives the figures of docs/scale.md, beside eight in the same lab.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scale_lab import NAME, Floor, racks_of
from scale_measure import Measured

pytestmark = pytest.mark.racks

HOSTS = int(os.environ.get("FIRSTLIGHT_SCALE_HOSTS", "4"))
RACKS = racks_of(HOSTS)
BESIDE = {"y": 4, "z": 4} if HOSTS > 8 else {}
FIRST, LAST = min(RACKS), max(RACKS)
TUNING = "/etc/sysctl.d/zz-firstlight.conf"


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Floor]:
    """All nodes, as their factory delivers them."""
    made = Floor({**RACKS, **BESIDE}, tmp_path_factory.mktemp("scale"))
    try:
        made.up()
        yield made
    finally:
        made.command("firstlight", "lab", "down", "--name", NAME)


def keep(results: dict[str, Any], which: str, hosts: int, run: Measured) -> None:
    """The figures of a run; those of the controller are the same however busy the machine is."""
    results[f"{hosts} hosts, {which} run"] = {
        "seconds": round(run.seconds, 1),
        "controller CPU s": round(run.cpu, 1),
        "controller CPU s a host": round(run.cpu / hosts, 2),
        "controller memory MiB": round(run.memory),
    }


def test_a_first_and_a_second_run(floor: Floor, results: dict[str, Any]) -> None:
    """Everybody comes through, nothing is changed twice, and a host costs no more where there are many."""
    runs: dict[tuple[int, str], Measured] = {}
    for racks in filter(None, (BESIDE, RACKS)):
        hosts = sum(racks.values())
        for which in ("first", "second"):
            run = runs[hosts, which] = floor.prepare(racks=racks)
            assert run.status == 0, run.output[-6000:]
            keep(results, which, hosts, run)
        assert "unchanged, 0 changed" in run.output or hosts <= 8
        assert run.output.count("changed=0") == hosts or hosts > 8
    if BESIDE:
        for which in ("first", "second"):
            ratio = (runs[HOSTS, which].cpu / HOSTS) / (runs[8, which].cpu / 8)
            results[f"controller CPU a host, {HOSTS} hosts / 8 hosts, {which} run"] = round(ratio, 2)
            assert ratio < 1.5


def test_a_limit_touches_the_hosts_of_its_rack_only(floor: Floor, tmp_path: Path) -> None:
    """The nodes themselves say who was touched; the plan is that of all."""
    document = tmp_path / "plan.json"
    before = floor.touches()
    run = floor.prepare("--limit", f"rack_{LAST}", "-e", f"plan_document={document}", racks=RACKS)
    assert run.status == 0, run.output[-6000:]
    after = floor.touches()
    assert {host for host in floor.hosts if after[host] > before[host]} == set(floor.of(LAST))
    assert len(json.loads(document.read_text())["hosts"]) == HOSTS


def test_a_bad_host_stops_neither_its_rack_nor_the_others(floor: Floor, results: dict[str, Any]) -> None:
    """One is silent, one has lost its GPU; a third, in the rack of the first, has work to do, and gets it done."""
    silent, sick, behind = floor.of(LAST)[-1], floor.of(FIRST)[1], floor.of(LAST)[0]
    engine = floor.lab.engine()
    assert floor.command("firstlight", "lab", "power", silent, "off").status == 0
    assert floor.command("firstlight", "lab", "fault", sick, "gpu_missing").status == 0
    engine.docker("exec", floor.lab.container(behind), "rm", TUNING)
    run = floor.command("ansible-playbook", "site.yml", "-i", floor.inventory(RACKS))
    assert run.status != 0
    assert engine.docker("exec", floor.lab.container(behind), "cat", TUNING)
    lines = [line.strip() for line in run.output.splitlines()]
    size = RACKS[LAST]
    for rack, host, reason in ((LAST, silent, "does not answer SSH (Observe)"), (FIRST, sick, "(Preflight)")):
        (told, *again) = [line for line in lines if line.startswith(f"rack_{rack}: {size - 1} of {size}, {host}: ")]
        assert told.endswith(reason)
        assert again == [told], "once where the run stops, once in the recap"
    (said,) = [line for line in lines if line.startswith(f"2 of {HOSTS} hosts are out ")]
    assert f"The other {HOSTS - 2} are prepared." in said
    assert "==> Image" not in run.output or "Image was not run" in run.output
    results[f"{HOSTS} hosts, two of them bad: seconds to the stop before serving"] = round(run.seconds, 1)
