# SPDX-License-Identifier: Apache-2.0
"""The pair matrix of sixteen nodes: tested in rounds, compared with the same tests of one pair after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from firstlight_lab.fabric import change_fabric
from tests.e2e.fabric.matrix_lab import MTU, NODES, PORTS, MatrixLab

pytestmark = pytest.mark.extended  # sixteen nodes, and all their pairs one after the other

PATHS = len(NODES) * (len(NODES) - 1) * len(PORTS)
BAD = "bare7"


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixLab]:
    """Sixteen nodes with both rails up, and an agent on each."""
    made = MatrixLab("matrix", tmp_path_factory.mktemp("matrix"))
    with made.running("--nodes", "1", "--bare", str(len(NODES) - 1)):
        made.configure()
        made.install()
        try:
            made.start_agents()
            yield made
        finally:
            made.stop()


@pytest.fixture(scope="module")
def in_rounds(rack: MatrixLab, results: dict[str, Any]) -> list[dict[str, Any]]:
    """Full-size pings between all pairs, in rounds."""
    paths, seconds = rack.in_rounds()
    results["16 nodes, 120 pairs, full-size pings on two rails, in rounds, seconds"] = round(seconds, 1)
    return paths


def assert_every_path_passed(paths: list[dict[str, Any]]) -> None:
    """Every ordered pair was tested once on every rail, and full-size packets arrived."""
    tested = {(path["host"], path["peer"], path["port"]) for path in paths}
    assert len(paths) == len(tested) == PATHS
    assert [path for path in paths if not path["ping"]["ok"]] == []
    assert {path["ping"]["largest"] for path in paths} == {MTU}


def test_every_host_has_one_partner_in_each_round(in_rounds: list[dict[str, Any]]) -> None:
    assert_every_path_passed(in_rounds)
    pairs: dict[int, set[frozenset[str]]] = defaultdict(set)
    for path in in_rounds:
        pairs[path["round"]].add(frozenset((path["host"], path["peer"])))
    assert len(pairs) == len(NODES) - 1
    for together in pairs.values():
        assert sorted(host for pair in together for host in pair) == sorted(NODES)


def test_rounds_find_the_same_as_one_pair_after_the_other(
    rack: MatrixLab, in_rounds: list[dict[str, Any]], results: dict[str, Any]
) -> None:
    one_by_one, seconds = rack.one_by_one()
    results["the same one pair after the other, seconds"] = round(seconds, 1)

    def found(paths: list[dict[str, Any]]) -> set[tuple[str, str, str, bool, int]]:
        return {(one["host"], one["peer"], one["port"], one["ping"]["ok"], one["ping"]["largest"]) for one in paths}

    assert_every_path_passed(one_by_one)
    assert found(one_by_one) == found(in_rounds)


def test_throughput_of_every_pair_is_measured_in_rounds(rack: MatrixLab, results: dict[str, Any]) -> None:
    """A megabyte each way on each rail of each pair. This machine's processors carry it: no figure has a bound."""
    paths, seconds = rack.in_rounds(count=1, amount=1_000_000)
    assert_every_path_passed(paths)
    assert [path["tcp"] for path in paths if not path["tcp"]["gbit"]] == []
    results["16 nodes, 480 measurements of throughput in rounds, seconds"] = round(seconds, 1)


def test_one_switch_port_without_jumbo_frames_is_named(rack: MatrixLab) -> None:
    """Of 480 paths 30 fail, and one line names the one host."""
    inventory = rack.inventory()
    change_fabric(rack.lab, node=BAD, port=PORTS[0], mtu=1500)
    try:
        run = rack.command("ansible-playbook", "tests/e2e/fabric/matrix/connectivity.yml", "-i", inventory, check=False)
    finally:
        change_fabric(rack.lab, node=BAD, port=PORTS[0], mtu=MTU)
    assert run.status == 2
    lines = run.output.splitlines()
    (line,) = [text for text in lines if "The fabric is not usable." in text]
    assert f"to and from {BAD} on {PORTS[0]} at most 1500-byte packets arrive" in line
    assert f"set the switch port MTU of {BAD} to >= 9216" in line
    assert line.count(" | ") == 0, line
    rows = {words[2]: words[3:] for words in map(str.split, lines) if words[2:3] and words[2] in NODES}
    assert list(rows) == list(NODES)
    for node, cells in rows.items():
        # Sent packets are cut off at another byte than received ones: the switch admits the four bytes of a VLAN tag.
        expected = {"1504/ok", "1500/ok"} if node == BAD else {"ok", "1500/ok"}
        assert set(cells) - {"-"} <= expected
        assert cells.count("ok") == (0 if node == BAD else len(NODES) - 2)
