# SPDX-License-Identifier: Apache-2.0
"""Cut a move at any point, by power or by killing who drives it, with any gate bad: it ends on exactly one set."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.repin import journal as book
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.unit.examples import examples

pytestmark = pytest.mark.slow  # thousands of interrupted moves

VERIFY = {"gates": {"sysctl": {"gate": "good"}}}
MOST_POINTS = 420


def drive(bench: Any, killed: type[BaseException], cut: type[BaseException], direction: str, **begin: Any) -> Any:
    """One controller: prepares what is not prepared and moves; None when it was killed."""
    try:
        bench.prepare(**begin)
        return bench.move(direction=direction, verify=VERIFY, verify_rollback=VERIFY)
    except cut:
        # In the middle of a step of the playbook: the run ends there.
        with contextlib.suppress(killed):
            bench.after_cut()
        return None
    except killed:
        return None


def finish(bench: Any) -> None:
    bench.do("uncordon")
    bench.do("close")


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(
        st.tuples(st.integers(0, MOST_POINTS), st.sampled_from(["power", "controller", "module"])), max_size=3
    ),
    bad_gate=st.booleans(),
    unloadable=st.booleans(),
    turn=st.booleans(),
)
def test_any_move_ends_on_exactly_one_set(
    new_bench: Callable[[], Any],
    killed: type[BaseException],
    cut: type[BaseException],
    cuts: list[tuple[int, str]],
    bad_gate: bool,
    unloadable: bool,
    turn: bool,
) -> None:
    bench = new_bench()
    most = 4
    if bad_gate:
        bench.host.broken_gates.add("580.2")
    if unloadable:
        bench.host.unloadable.add("580.2")
    outcome = None
    for point, means in cuts:
        bench.host.points, bench.host.cut_at, bench.cut_means = 0, point, means
        outcome = drive(bench, killed, cut, "forward", max_reboots=most)
        bench.host.cut_at = -1
        if outcome is not None and outcome.outcome in (book.VERIFIED, book.ROLLED_BACK):
            break
    if outcome is None or outcome.outcome not in (book.VERIFIED, book.ROLLED_BACK):
        outcome = drive(bench, killed, cut, "back" if turn else "forward", max_reboots=most)
    assert outcome is not None
    assert outcome.outcome in (book.VERIFIED, book.ROLLED_BACK), (outcome, bench.said)
    assert bench.on_new if outcome.outcome == book.VERIFIED else bench.on_old
    if bad_gate or unloadable:
        assert outcome.outcome == book.ROLLED_BACK
    # The driver that runs is the installed one, and nothing serves before the host is given back.
    assert bench.host.loaded == ("580.2" if outcome.outcome == book.VERIFIED else "580.1")
    assert bench.host.units["firstlight-server.service"][0] is False
    assert (bench.root / "drained").exists()
    journal = bench.do("read")["journal"]
    book.validated(journal, "journal")
    assert len(bench.do("read")["reboots"]) <= most
    finish(bench)
    assert not (bench.root / "drained").exists()
    assert bench.do("read")["journal"] is None
    assert [path.name for path in (bench.root / "debs").iterdir() if not path.name.endswith((".deb", ".json"))] == []


WAYS = [(direction, means) for direction in ("forward", "back") for means in ("power", "controller", "module")]


@pytest.mark.extended  # every step of every way; the test above takes some of them
@pytest.mark.parametrize(("direction", "means"), WAYS)
def test_every_single_point(
    new_bench: Callable[[], Any],
    killed: type[BaseException],
    cut: type[BaseException],
    direction: str,
    means: str,
) -> None:
    """Not by chance: the six ways share all points of a whole move among them, and each has some of every step."""
    whole = new_bench()
    drive(whole, killed, cut, "forward")
    assert whole.on_new
    assert 50 < whole.host.points < MOST_POINTS
    for point in range(WAYS.index((direction, means)), whole.host.points, len(WAYS)):
        bench = new_bench()
        bench.host.cut_at, bench.cut_means = point, means
        first = drive(bench, killed, cut, "forward")
        second = drive(bench, killed, cut, direction)
        assert second is not None
        expected = book.ROLLED_BACK if direction == "back" else book.VERIFIED
        assert (point, second.outcome, bench.on_old if direction == "back" else bench.on_new) == (point, expected, True)
        assert first is None or first.outcome == book.VERIFIED
        finish(bench)
