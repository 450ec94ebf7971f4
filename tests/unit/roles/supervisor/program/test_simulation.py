# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .machines import TIMING, ranks_group, ray_group
from .world import World

KINDS = (
    "die",
    "reboot",
    "power",
    "cut",
    "hung",
    "leak",
    "drained",
    "supervisor",
    "stuck",
    "broken",
    "by hand",
    "restart",
)
Fault = tuple[int, str, int, int]
FAULTS = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(KINDS), st.integers(0, 3), st.integers(1, 15)), max_size=8
)


def play(world: World, faults: list[Fault]) -> None:
    """The faults at their times, then quiet until everything is settled."""
    names = list(world.nodes)
    last = 0
    for at, kind, rank, duration in sorted(faults):
        world.pass_time(max(0, at - world.now))
        world.fault(kind, names[rank % len(names)], duration)
        last = max(last, at + duration)
    world.pass_time(max(0, last + 1 - world.now))
    quiet = 0
    for _ in range(300):
        world.second()
        quiet = quiet + 1 if world.settled() else 0
        if quiet > 15:  # long enough that a hang would have been found
            return
    raise AssertionError("\n".join([str(world.decision), *world.history]))


@given(
    faults=FAULTS, size=st.integers(1, 4), delays=st.tuples(*[st.integers(0, 2)] * 2), attempts=st.sampled_from((2, 5))
)
def test_a_ray_cluster_serves_again_or_says_why_not(
    faults: list[Fault], size: int, delays: tuple[int, ...], attempts: int
) -> None:
    play(World(ray_group(size, replace(TIMING, start_attempts=attempts)), delays), faults)


@given(faults=FAULTS, size=st.integers(2, 4), delays=st.tuples(*[st.integers(0, 2)] * 2))
def test_ranks_without_ray_serve_again_or_say_why_not(faults: list[Fault], size: int, delays: tuple[int, ...]) -> None:
    play(World(ranks_group(size), delays), faults)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_one_fault_while_it_serves_takes_one_start_at_most(kind: str, rank: int) -> None:
    world = World(ray_group(3), (0, 1))
    world.until("serving")
    play(world, [(30, kind, rank, 3)])
    assert world.decision is not None
    assert world.decision.phase == "serving"
    assert sum("all nodes are ready: starts" in event for event in world.history) <= 2


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_supervisor_that_is_restarted_touches_nothing(rank: int) -> None:
    world = World(ray_group(3))
    world.until("serving")
    before = {name: dict(node.units) for name, node in world.nodes.items()}
    world.fault("supervisor", f"n{rank}", 2)
    world.pass_time(20)
    assert world.settled()
    assert {name: node.units for name, node in world.nodes.items()} == before
    assert all(node.units[unit] is before[name][unit] for name, node in world.nodes.items() for unit in node.units)


def test_units_that_were_all_started_by_somebody_else_are_not_touched() -> None:
    world = World(ray_group(3))
    for name in world.nodes:
        world.fault("by hand", name, 0)
    world.until("serving")
    world.pass_time(20)
    assert world.settled()
    assert world.phases == ["warming", "serving"]


@pytest.mark.parametrize("rank", [0, 2])
def test_a_node_on_which_nothing_ever_starts_ends_in_giving_up_after_all_attempts(rank: int) -> None:
    world = World(ray_group(3))
    world.fault("broken", f"n{rank}", 10_000)
    decision = world.until("failed")
    assert world.starts_without_serving == TIMING.start_attempts
    assert f"ray.service on n{rank} has ended" in decision.why
    world.fault("power", "n0", 5)
    world.pass_time(30)
    assert world.starts_without_serving == TIMING.start_attempts


def test_a_machine_that_dies_in_every_start_is_left_alone_after_all_attempts() -> None:
    """What was written down before the start is all that is left of it."""
    world = World(ray_group(2))
    for _ in range(TIMING.start_attempts):
        world.until("starting")
        world.pass_time(2)
        world.fault("reboot", "n0", 3)
    assert "n0 itself went down while the group was starting" in world.until("failed").why
