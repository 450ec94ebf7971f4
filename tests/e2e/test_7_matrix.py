# SPDX-License-Identifier: Apache-2.0
"""The pair matrix of sixteen nodes: in rounds, against the same tests of the same pairs one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from matrix_lab import MTU, NAME, NODES, PORTS, MatrixLab

pytestmark = pytest.mark.thorough

PATHS = len(NODES) * (len(NODES) - 1) * len(PORTS)
LEAST_RATIO = 4
BAD = "bare7"


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixLab]:
    """Sixteen nodes with both rails up, and an agent on each."""
    made = MatrixLab(tmp_path_factory.mktemp("matrix"))
    try:
        made.command("firstlight", "lab", "up", "--nodes", "1", "--bare", str(len(NODES) - 1))
        made.configure()
        made.install()
        made.start_agents()
        yield made
    finally:
        made.stop()
        made.command("firstlight", "lab", "down", "--name", NAME)


def assert_all_right(paths: list[dict[str, Any]]) -> None:
    """Every ordered pair was tested once on every rail, and full-size packets passed."""
    seen = {(path["host"], path["peer"], path["port"]) for path in paths}
    assert len(paths) == len(seen) == PATHS
    assert [path for path in paths if not path["ping"]["ok"]] == []
    assert {path["ping"]["largest"] for path in paths} == {MTU}


def test_rounds_take_a_fraction_of_one_pair_after_the_other(rack: MatrixLab, results: dict[str, Any]) -> None:
    """Both are driven by the same agents, and nothing is started in between: only the tests themselves are timed."""
    together, seconds = rack.in_rounds()
    alone, seconds_alone = rack.one_by_one()
    assert_all_right(together)
    assert_all_right(alone)
    assert len({path["round"] for path in together}) == len(NODES) - 1
    results["16 nodes, 120 pairs, full-size pings on two rails, in rounds, seconds"] = round(seconds, 1)
    results["the same one pair after the other, seconds"] = round(seconds_alone, 1)
    results["pairs one by one / in rounds"] = round(seconds_alone / seconds, 1)
    assert seconds_alone / seconds > LEAST_RATIO


def test_the_throughput_of_every_pair_is_measured_in_rounds(rack: MatrixLab, results: dict[str, Any]) -> None:
    """A megabyte each way on each rail of each pair: the machine's own processors carry it, so no figure is judged."""
    paths, seconds = rack.in_rounds(count=1, amount=1_000_000)
    assert_all_right(paths)
    assert [path["tcp"] for path in paths if not path["tcp"]["gbit"]] == []
    results["16 nodes, 480 measurements of throughput in rounds, seconds"] = round(seconds, 1)


def test_one_switch_port_without_jumbo_frames_is_named(rack: MatrixLab, results: dict[str, Any]) -> None:
    """Of 480 paths 30 fail, and what is said is one line about one host."""
    inventory = rack.inventory()
    rack.command("firstlight", "lab", "fabric", "--node", BAD, "--port", PORTS[0], "--mtu", "1500")
    output = rack.command("ansible-playbook", "tests/e2e/matrix/prove.yml", "-i", inventory, fails=True)
    (line,) = [text for text in output.splitlines() if "The fabric is not usable." in text]
    assert f"to and from {BAD} on {PORTS[0]} at most 1500-byte packets arrive" in line
    assert f"set the switch port MTU of {BAD} to >= 9216" in line
    assert line.count(" | ") == 0, line
    rows = {words[2]: words[3:] for words in map(str.split, output.splitlines()) if words[2:3] and words[2] in NODES}
    assert list(rows) == list(NODES)
    for node, cells in rows.items():
        # What it sends is cut off at another byte than what it gets: the switch lets a VLAN tag's four bytes pass.
        expected = {"1504/ok", "1500/ok"} if node == BAD else {"ok", "1500/ok"}
        assert set(cells) - {"-"} <= expected
        assert cells.count("ok") == (0 if node == BAD else len(NODES) - 2)
