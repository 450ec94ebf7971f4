# SPDX-License-Identifier: Apache-2.0
"""Re-pins that go wrong. Each ends with every node on exactly one complete set, and a report that says what happened.

Every test starts with a restore of three nodes on the stack `lab`, in service. `lab-next` is the lab's other stack.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.repin.lab import (
    DRAINED,
    FIRST,
    GPUS,
    HEAD,
    MIDDLE,
    NAME,
    NODES,
    SERVING,
    STORE,
    FaultLab,
    Run,
    Truth,
)

KILLED = ("drained", "reboot-requested")
"""The entries between which most happens. What follows from each of all is in the unit tests of the moves."""
FORWARD = ("planned", "drained", "staged", "installed", "reboot-requested", "booted", "verified", "uncordoned")


@pytest.fixture(scope="module")
def brought_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultLab]:
    made = FaultLab(tmp_path_factory.mktemp("repin"))
    try:
        made.bring_up()
        yield made
    finally:
        made.command("firstlight", "lab", "down", "--name", NAME)
        print("\nruns: " + ", ".join(f"{name} {seconds} s" for name, seconds in made.runs))


@pytest.fixture
def rack(brought_up: FaultLab) -> FaultLab:
    """Three nodes on the stack `lab`, in service."""
    brought_up.restore()
    return brought_up


def essence(truth: Truth) -> tuple[object, ...]:
    """All that a node has of a stack, and whether it was touched."""
    return truth.installed, truth.holds, truth.loaded, truth.answers, truth.running, truth.boot, truth.drained


def essences(rack: FaultLab, *nodes: str) -> dict[str, tuple[object, ...]]:
    return {node: essence(rack.truth(node)) for node in nodes or NODES}


def version(rack: FaultLab, stack: str) -> str:
    return str(rack.stack(stack)["driver"]["version"])


def assert_done(run: Run) -> None:
    assert run.status == 0, run.output[-6000:]
    assert run.report["done"]
    assert run.problems == ""


def assert_stopped(run: Run, *words: str) -> None:
    """The run failed, and its report says these words."""
    assert run.status not in (0, -9), run.output[-6000:]
    assert not run.report["done"]
    for word in words:
        assert word in run.problems, run.problems


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} never happened"
        time.sleep(0.2)


def building(rack: FaultLab, node: str) -> bool:
    """Whether dpkg is in the middle of its work there: the module's package is being configured."""
    return "--build" in rack.inside(node, "pgrep -a -f '[n]vidia-load --build' || true")


@pytest.mark.extended  # ends before anything is changed; the faults that have to be rolled back are below
def test_a_repository_that_vanishes_while_preparing_changes_nothing(rack: FaultLab) -> None:
    before = essences(rack)
    for node in NODES:
        rack.inside(node, f"rm -rf {STORE}")
    rack.repository("gone", at="libnvidia-gl-580-server")
    run = rack.repin("lab-next", "vanished")
    assert_stopped(run, "libnvidia-gl-580-server")
    assert {run.outcome(node) for node in NODES} == {"untouched"}
    assert essences(rack) == before, "nothing was drained, nothing was changed"
    rack.check_on("lab", *NODES)


@pytest.mark.extended  # the same by another fault
def test_a_disk_that_fills_up_while_staging_changes_nothing(rack: FaultLab) -> None:
    before = essences(rack)
    rack.inside(MIDDLE, f"mkdir -p {STORE} && mount -t tmpfs -o size=32k,mode=755 tmpfs {STORE}")
    run = rack.repin("lab-next", "full")
    assert_stopped(run, MIDDLE, STORE)
    assert run.problems.count("\n") == 0, "one message"
    assert {run.outcome(node) for node in NODES} == {"untouched"}
    assert essences(rack) == before
    rack.check_on("lab", *NODES)


@pytest.mark.extended  # two moves; test_crashes.py ends it at every step
def test_a_killed_controller_is_followed_by_one_that_goes_on(rack: FaultLab) -> None:
    """One re-pin of two nodes by three controllers. From half-way on there is no repository: all is on the nodes.

    The third node has lost a GPU before: it is neither moved nor rolled back.
    """
    rack.fault(MIDDLE, "gpu_missing:2")
    sick = essence(rack.truth(MIDDLE))
    boots = {node: rack.truth(node).boot for node in (HEAD, FIRST)}
    for entry in KILLED:
        host = rack.repin_killed_after(f"forward:{entry}", "lab-next", f"killed-{entry}")
        assert rack.truth(host).states[-1] == f"forward:{entry}"
        if entry == "drained":
            rack.power("services", "off")
        if entry == "reboot-requested":
            rack.lab.wait_for(host)
    run = rack.repin("lab-next", "after-the-kills")
    assert_stopped(run, f"{MIDDLE}: unhealthy before the re-pin", f"{GPUS - 1} GPUs")
    assert run.outcome(MIDDLE) == "left alone"
    assert essence(rack.truth(MIDDLE)) == sick
    rack.check_on("lab-next", HEAD, FIRST)
    for node in (HEAD, FIRST):
        found = rack.truth(node)
        assert found.states == [f"forward:{entry}" for entry in FORWARD], "each step was done and written down once"
        assert len({entry["boot_id"] for entry in found.history[-1]["entries"]} | {boots[node]}) == 2, "one reboot"


@pytest.mark.extended  # three moves, and the state it is about is one file
def test_a_node_that_was_out_of_service_is_moved_and_stays_out_of_service(rack: FaultLab) -> None:
    rack.inside(MIDDLE, f"systemctl stop {SERVING[MIDDLE][0]}; mkdir -p {Path(DRAINED).parent}")
    rack.inside(MIDDLE, f"""echo '{{"by": "somebody"}}' > {DRAINED}""")
    run = rack.repin("lab-next", "out-of-service")
    assert_done(run)
    assert run.outcome(MIDDLE) == "moved"
    rack.check_on("lab-next", MIDDLE, serving=False)
    found = rack.truth(MIDDLE)
    assert "somebody" in found.drained
    assert SERVING[MIDDLE][0] not in found.running
    rack.check_on("lab-next", HEAD, FIRST)


@pytest.mark.extended  # a whole re-pin before the one that is refused
def test_more_reboots_than_allowed_are_refused(rack: FaultLab) -> None:
    assert_done(rack.repin("lab-next", "first"))
    before = essences(rack)
    run = rack.repin("lab", "too-many-reboots", repin_max_reboots=2)
    assert run.status != 0
    assert "Nothing was changed" in run.output
    assert "times for a re-pin in the last 12 hours" in run.output
    assert essences(rack) == before


def test_a_driver_that_does_not_load_is_rolled_back_and_no_other_node_moves(rack: FaultLab) -> None:
    others = essences(rack, HEAD, MIDDLE)
    rack.fault(FIRST, f"module_unloadable:version={version(rack, 'lab-next')}")
    run = rack.repin("lab-next", "unloadable")
    assert_stopped(run, FIRST, version(rack, "lab-next"))
    assert run.outcome(FIRST) == "put back"
    assert essences(rack, HEAD, MIDDLE) == others, "not rebooted, and in service again"
    rack.check_on("lab", *NODES)
    states = rack.truth(FIRST).states
    assert states[-5:] == [
        f"back:{entry}" for entry in ("installed", "reboot-requested", "booted", "rolled-back", "uncordoned")
    ]
    assert "forward:failed" in states


@pytest.mark.extended  # the same rollback as that of the driver, with a controller that dies on the way
def test_a_fabric_manager_that_does_not_start_rolls_the_driver_back_with_it(rack: FaultLab) -> None:
    """The controller is killed during the rollback; the next one goes on with that."""
    others = essences(rack, HEAD, MIDDLE)
    rack.fault(FIRST, f"fabric_manager_broken:version={version(rack, 'lab-next')}")
    assert rack.repin_killed_after("back:installed", "lab-next", "fm-killed") == FIRST
    half = rack.truth(FIRST)
    assert (half.states[-1], version(rack, "lab-next") in half.loaded) == ("back:installed", True)
    run = rack.repin("lab-next", "fabric-manager")
    assert_stopped(run, FIRST, "nvidia-fabricmanager.service")
    assert run.outcome(FIRST) == "put back"
    assert essences(rack, HEAD, MIDDLE) == others
    rack.check_on("lab", *NODES)


@pytest.mark.extended  # two runs, one of them of all nodes
def test_a_power_cut_during_dpkg_is_repaired_by_the_next_run(rack: FaultLab) -> None:
    others = essences(rack, HEAD, MIDDLE)
    rack.fault(FIRST, f"module_build_slow:version={version(rack, 'lab-next')}")
    started = time.monotonic()
    process = rack.start("lab-next", "power-cut", {}, {})
    wait_for(lambda: building(rack, FIRST), "the build of the module")
    rack.power(FIRST, "off")
    run = rack.finish(process, "power-cut", started)
    assert_stopped(run, FIRST)
    assert run.outcome(FIRST) == "lost"
    assert essences(rack, HEAD, MIDDLE) == others, "not moved, and in service again"
    rack.fault(FIRST)
    rack.power(FIRST, "on")
    assert rack.truth(FIRST).half_done, "dpkg was cut off"
    again = rack.repin("lab-next", "after-the-power-cut")
    assert_done(again)
    rack.check_on("lab-next", *NODES)


@pytest.mark.extended  # three runs, two of which wait for a node that does not answer
def test_a_node_that_stops_answering_and_one_that_never_comes_back_keep_the_others_where_they_are(
    rack: FaultLab,
) -> None:
    """Both happen to the same node, in one move that is given up.

    sshd dies while dpkg works; dpkg itself goes on and is waited for by the next run, which requests the reboot from
    which the node does not come back. The last run rolls it back.
    """
    others = essences(rack, HEAD, MIDDLE)
    rack.fault(FIRST, f"module_build_slow:version={version(rack, 'lab-next')},seconds=8")
    started = time.monotonic()
    process = rack.start("lab-next", "silent", {}, {})
    wait_for(lambda: building(rack, FIRST), "the build of the module")
    rack.inside(FIRST, "systemctl stop ssh.service; pkill -KILL -x sshd || true")
    silent = rack.finish(process, "silent", started)
    assert_stopped(silent, FIRST)
    assert silent.outcome(FIRST) == "lost"
    assert essences(rack, HEAD, MIDDLE) == others
    rack.fault(FIRST)
    rack.inside(FIRST, "systemctl start ssh.service")

    rack.power(FIRST, "stays-off")
    gone = rack.repin("lab-next", "never-back", repin_reboot_timeout=15)
    assert_stopped(gone, FIRST)
    assert gone.outcome(FIRST) == "lost"
    assert essences(rack, HEAD, MIDDLE) == others
    rack.power(FIRST, "on")
    assert rack.truth(FIRST).states[-1] == "forward:reboot-requested"

    again = rack.repin("lab", "given-up")
    assert again.status == 0, again.output[-6000:]
    assert again.outcome(FIRST) == "put back"
    assert essences(rack, HEAD, MIDDLE) == others
    rack.check_on("lab", *NODES)
