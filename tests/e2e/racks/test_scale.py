# SPDX-License-Identifier: Apache-2.0
"""Racks of nodes taken to a tested fabric: what a run costs the controller, and what a host that is out stops.

FIRSTLIGHT_SCALE_HOSTS is the number of hosts, 4 by default. With more than eight, eight others in two racks are
prepared first, and the figures of both are those of docs/scale.md. The module's fixtures are its stages: each runs
after the one that it requests, and keeps what it saw for the tests.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.racks.measure import Measured, changed_hosts
from tests.e2e.racks.scale_lab import Floor, racks_of

pytestmark = pytest.mark.extended  # several racks, each prepared from the beginning

HOSTS = int(os.environ.get("FIRSTLIGHT_SCALE_HOSTS", "4"))
RACKS = racks_of(HOSTS)
FIRST, LAST = min(RACKS), max(RACKS)
SMALLER = {"y": 4, "z": 4} if HOSTS > 8 else {}
TUNING = "/etc/sysctl.d/zz-firstlight.conf"
MOST_PER_HOST = 1.5
"""A host's share of a run over all hosts, against its share of a run over fewer."""
SERVING_PHASES = ("Engine", "Image", "GPU burn-in", "Weights", "Serve", "Endpoint", "Monitoring", "Clients")


@dataclass(frozen=True)
class Pair:
    """The first and the second run of prepare.yml over the same hosts."""

    first: Measured
    second: Measured


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Floor]:
    """All nodes, as delivered."""
    made = Floor("scale", tmp_path_factory.mktemp("scale"), {**RACKS, **SMALLER})
    with made.running(*made.lab_options):
        yield made


def prepare_twice(floor: Floor, racks: dict[str, int], results: dict[str, Any]) -> Pair:
    pair = Pair(*(floor.playbook("playbooks/prepare.yml", racks) for _ in ("first", "second")))
    hosts = sum(racks.values())
    for which, run in (("first", pair.first), ("second", pair.second)):
        results[f"{hosts} hosts, {which} run"] = {
            "seconds": round(run.seconds, 1),
            "controller CPU s": round(run.cpu, 1),
            "controller CPU s per host": round(run.cpu / hosts, 2),
            "controller memory MiB": round(run.memory),
        }
    return pair


@pytest.fixture(scope="module")
def smaller(floor: Floor, results: dict[str, Any]) -> Pair | None:
    """Stage 1, with more than eight hosts: eight others, for the comparison."""
    return prepare_twice(floor, SMALLER, results) if SMALLER else None


@pytest.fixture(scope="module")
def prepared(floor: Floor, smaller: Pair | None, results: dict[str, Any]) -> Pair:
    """Stage 2: all racks."""
    return prepare_twice(floor, RACKS, results)


@dataclass(frozen=True)
class Limited:
    """A run that is limited to one rack: the hosts that were accessed, and the hosts of its plan."""

    run: Measured
    accessed: set[str]
    planned: int


@pytest.fixture(scope="module")
def limited(floor: Floor, prepared: Pair) -> Limited:
    """Stage 3: the last rack alone."""
    document = floor.directory / "plan.json"
    before = floor.accesses()
    options = ("--limit", f"rack_{LAST}", "-e", f"plan_document={document}")
    run = floor.playbook("playbooks/prepare.yml", RACKS, *options)
    after = floor.accesses()
    accessed = {host for host in floor.hosts if after[host] > before[host]}
    return Limited(run, accessed, len(json.loads(document.read_text())["hosts"]))


@dataclass(frozen=True)
class HostsOut:
    """A run of site.yml while one host is off and one has lost its GPU."""

    run: Measured
    off: str
    without_gpu: str
    tuning_of_neighbour: str
    images: dict[str, str]

    @property
    def lines(self) -> list[str]:
        return [line.strip() for line in self.run.output.splitlines()]


@pytest.fixture(scope="module")
def hosts_out(floor: Floor, limited: Limited, results: dict[str, Any]) -> HostsOut:
    """Stage 4: a third host, in the rack of the one that is off, lacks a file of its tuning."""
    off, without_gpu, neighbour = floor.hosts_of(LAST)[-1], floor.hosts_of(FIRST)[1], floor.hosts_of(LAST)[0]
    try:
        floor.command("firstlight", "lab", "power", off, "off")
        floor.command("firstlight", "lab", "fault", without_gpu, "gpu_missing")
        floor.inside(neighbour, f"rm {TUNING}")
        run = floor.playbook("site.yml", RACKS)
        tuning = floor.inside(neighbour, f"cat {TUNING} 2> /dev/null || true")
        running = [host for host in floor.hosts if host != off]
        images = {host: floor.inside(host, "docker image ls -q").strip() for host in running}
    finally:
        floor.command("firstlight", "lab", "fault", without_gpu)
        floor.command("firstlight", "lab", "power", off, "on")
    results[f"{HOSTS} hosts, two of them out: controller CPU s until site.yml stops"] = round(run.cpu, 1)
    return HostsOut(run, off, without_gpu, tuning, images)


def test_prepare_changes_every_host_once(prepared: Pair) -> None:
    assert (changed_hosts(prepared.first, HOSTS), changed_hosts(prepared.second, HOSTS)) == (HOSTS, 0)


def test_host_costs_the_controller_no_more_among_many(
    prepared: Pair, smaller: Pair | None, limited: Limited, results: dict[str, Any]
) -> None:
    """Runs with nothing to do, over all hosts and over one rack; with more than eight hosts, first runs as well."""
    assert limited.run.status == 0, limited.run.output[-6000:]
    per_host = limited.run.cpu / RACKS[LAST]
    ratios = {"second run": prepared.second.cpu / HOSTS / per_host}
    if smaller is not None:
        hosts = sum(SMALLER.values())
        assert (changed_hosts(smaller.first, hosts), changed_hosts(smaller.second, hosts)) == (hosts, 0)
        ratios["first run"] = (prepared.first.cpu / HOSTS) / (smaller.first.cpu / hosts)
    for which, ratio in ratios.items():
        results[f"controller CPU per host, {HOSTS} hosts / fewer, {which}"] = round(ratio, 2)
    assert max(ratios.values()) < MOST_PER_HOST, ratios


def test_limit_accesses_the_hosts_of_its_rack_and_the_head_for_the_lease(floor: Floor, limited: Limited) -> None:
    assert limited.run.status == 0, limited.run.output[-6000:]
    assert limited.accessed == {floor.hosts_of(FIRST)[0], *floor.hosts_of(LAST)}


def test_limit_still_plans_all_hosts(limited: Limited) -> None:
    assert limited.planned == HOSTS


def test_neighbours_of_a_host_that_is_out_are_prepared(hosts_out: HostsOut) -> None:
    assert hosts_out.run.status != 0
    assert hosts_out.tuning_of_neighbour != ""


def test_hosts_that_are_out_are_named_with_their_racks_and_reasons(hosts_out: HostsOut) -> None:
    size = RACKS[LAST]
    for rack, host, reason in (
        (LAST, hosts_out.off, "does not answer SSH (Observe)"),
        (FIRST, hosts_out.without_gpu, "(Preflight)"),
    ):
        told = [line for line in hosts_out.lines if line.startswith(f"rack_{rack}: {size - 1} of {size}, {host}: ")]
        assert len(told) == 2, "once where the run stops, once in the recap"
        assert told[0] == told[1]
        assert told[0].endswith(reason)
    (summary,) = [line for line in hosts_out.lines if line.startswith(f"2 of {HOSTS} hosts are out ")]
    assert f"The other {HOSTS - 2} are prepared." in summary


def test_serving_does_not_begin_while_a_host_is_out(hosts_out: HostsOut) -> None:
    begun = [
        line for line in hosts_out.lines if re.match(rf"({'|'.join(SERVING_PHASES)}) (done in|ended after) ", line)
    ]
    assert begun == []
    assert set(hosts_out.images.values()) == {""}
