# SPDX-License-Identifier: Apache-2.0
"""A run over racks as it is told: why hosts are out, by rack, and nothing against the one that says so."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.blocks import Failure, Line
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.display import Progress
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.fleet import (
    host_lines,
    rack_lines,
    reason_of,
)

RACKS = {f"rack_{name}": [f"spark-{name}{position}" for position in range(1, 9)] for name in "abc"}
HOSTS = [host for hosts in RACKS.values() for host in hosts]
WELL = {"ok": 7, "changed": 0, "unreachable": 0, "failed": 0}
SILENT = Failure("spark-b3", "t", "Read the host", ("timed out",), unreachable=True, title="answer SSH")
BAD = Failure("spark-c1", "u", "Evaluate the host", ("1 GPU is missing.", "Do: look."))
CALL = Failure("spark-a1", "v", "Fail if a host is out of the run", ("2 of 24 hosts are out",))


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


@pytest.fixture
def run() -> Progress:
    """A run in which one host was silent, one was refused, and the first said so."""
    run = Progress(lambda: 1000.0)
    run.know_racks(RACKS)
    run.start_phase("Observe", "1")
    run.failed(SILENT)
    run.start_phase("Preflight", "2")
    run.failed(BAD)
    run.start_phase("Require all hosts", "3")
    return run


def test_the_stop_says_who_is_out_where_and_why(run: Progress) -> None:
    assert texts(run.all_hosts_required(CALL)) == [
        "",
        "STOPPED  before what needs every host",
        "    rack_b: 7 of 8, spark-b3: does not answer SSH (Observe)",
        "    rack_c: 7 of 8, spark-c1: 1 GPU is missing. (Preflight)",
        "    2 of 24 hosts are out",
    ]


def test_the_recap_names_racks_and_not_the_speaker(run: Progress) -> None:
    run.all_hosts_required(CALL)
    counts = dict.fromkeys(HOSTS, WELL)
    counts |= {"spark-b3": {**WELL, "unreachable": 1}, "spark-c1": {**WELL, "failed": 1}}
    counts["spark-a1"] = {**WELL, "failed": 1}
    lines = texts(run.recap(counts))
    at = lines.index("==> Recap")
    assert lines[at + 1].startswith("spark-b3 : ok=7")
    assert lines[at + 2].startswith("spark-c1 : ok=7")
    assert lines[at + 3 : at + 6] == [
        "rack_b: 7 of 8, spark-b3: does not answer SSH (Observe)",
        "rack_c: 7 of 8, spark-c1: 1 GPU is missing. (Preflight)",
        "22 of 24 hosts came through: 22 unchanged, 0 changed",
    ]
    assert not [line for line in lines if "spark-a1" in line]


def test_plays_that_nobody_is_left_for_are_not_shown(run: Progress) -> None:
    run.all_hosts_required(CALL)
    assert run.nobody_left() == []
    assert run.start_phase("Engine", "4") == []
    assert [phase.name for phase in run.phases] == ["Observe", "Preflight", "Require all hosts"]
    assert run.end_phase() == []


def test_in_one_cluster_hosts_that_are_out_are_named_in_order() -> None:
    run = Progress(lambda: 1000.0)
    run.start_phase("Preflight", "1")
    run.start_task(SILENT.host, "t", "Read the host")
    run.failed(BAD)
    run.failed(SILENT)
    run.start_phase("Driver", "2")
    assert texts(run.all_hosts_required(CALL))[1:] == [
        "STOPPED  before what needs every host",
        "    spark-b3: does not answer SSH (Preflight)",
        "    spark-c1: 1 GPU is missing. (Preflight)",
        "    2 of 24 hosts are out",
    ]


def test_a_cluster_that_is_down_is_no_scroll() -> None:
    lines = texts(host_lines(dict.fromkeys(HOSTS, "silent")))
    assert lines[0] == "spark-a1: silent"
    assert lines[-1] == f"and {len(HOSTS) - (len(lines) - 1)} more"
    assert len(lines) == 17


def test_one_rack_is_nothing_to_tell_apart() -> None:
    run = Progress(lambda: 1000.0)
    run.know_racks({"rack_b": RACKS["rack_b"]})
    run.start_phase("Observe", "1")
    run.failed(SILENT)
    assert not [line for line in texts(run.recap({"spark-b3": {**WELL, "unreachable": 1}})) if "rack_b" in line]


def test_a_limited_run_counts_those_who_took_part() -> None:
    counts = {"spark-b1": WELL, "spark-b2": {**WELL, "failed": 1}}
    assert texts(rack_lines(RACKS, counts, {})) == ["rack_b: 1 of 2, spark-b2: failed"]


def test_a_rack_that_is_down_is_no_scroll() -> None:
    counts = {host: {**WELL, "unreachable": 1} for host in RACKS["rack_a"]}
    (line,) = texts(rack_lines(RACKS, counts, dict.fromkeys(counts, "silent")))
    assert line.startswith("rack_a: 0 of 8, spark-a1: silent; ")
    assert line.endswith("spark-a4: silent; and 4 more")


def test_a_long_reason_is_cut_and_one_without_words_is_its_task() -> None:
    assert len(reason_of("", Failure("h", "k", "Do it", ("x" * 500,)))) == 160
    assert reason_of("Driver", Failure("h", "k", "Do it", ())) == "Do it (Driver)"


@pytest.fixture
def fleet() -> Progress:
    """All hosts have been given a task."""
    run = Progress(lambda: 1000.0)
    run.start_phase("Fabric", "1")
    for host in HOSTS:
        run.start_task(host, "t", "Write")
    return run


def test_what_a_fleet_has_alike_is_told_once(fleet: Progress) -> None:
    for host in HOSTS:
        assert fleet.changed(host, "t", "Write") == []
    assert texts(fleet.announce_task("u", "Next")) == ["  all 24 hosts  changed  Write"]
    assert fleet.announce_task("v", "Next") == []


def test_a_few_are_named_and_a_part_is_counted(fleet: Progress) -> None:
    for host in HOSTS[:9]:
        fleet.changed(host, "t", "Write", detail="1 of 2 items")
    for host in HOSTS[9:11]:
        fleet.changed(host, "t", "Write")
    fleet.said(HOSTS[11], "t", "Say", ["a", "b"])
    assert texts(fleet.end_phase())[:4] == [
        "  9 of 24 hosts  changed  Write (1 of 2 items)",
        "  spark-b2, spark-b3  changed  Write",
        "  spark-b4  a",
        "  spark-b4  b",
    ]


def test_verbosity_tells_of_each() -> None:
    run = Progress(lambda: 1000.0, verbosity=1)
    run.start_phase("Fabric", "1")
    for host in HOSTS:
        run.start_task(host, "t", "Write")
    assert texts(run.changed(HOSTS[0], "t", "Write")) == ["  spark-a1  changed  Write"]
