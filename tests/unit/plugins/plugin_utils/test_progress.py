# SPDX-License-Identifier: Apache-2.0
"""The progress callback's state machine: events and a hand-driven clock in, lines out."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.blocks import Failure, Line
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.display import Progress


class Clock:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def run(clock: Clock) -> Progress:
    """A run in its phase Fabric, with three hosts that wait for the task `verify`."""
    run = Progress(clock)
    run.begin()
    run.start_phase("Fabric", "play-1")
    run.announce_task("verify", "Verify jumbo frames")
    for host in ("spark0", "spark1", "spark2"):
        run.start_task(host, "verify", "Verify jumbo frames")
    return run


class TestPhases:
    def test_a_heading_and_an_end_with_time_and_changes(self, clock: Clock) -> None:
        run = Progress(clock)
        run.begin(total_phases=11)
        assert texts(run.start_phase("Plan", "a")) == ["==> Plan  (1/11)"]
        run.start_task("spark0", "t", "Write")
        clock.forward(12.3)
        run.changed("spark0", "t", "Write")
        assert texts(run.start_phase("Fabric", "b")) == [
            "    Plan done in 12.3 s, 1 changed",
            "==> Fabric  (2/11)",
        ]

    def test_a_further_batch_of_the_same_play_is_the_same_phase(self, run: Progress) -> None:
        assert run.start_phase("Fabric", "play-1") == []
        assert [phase.name for phase in run.phases] == ["Fabric"]

    def test_a_phase_in_which_nobody_has_anything_to_do_counts_and_is_not_shown(self, clock: Clock) -> None:
        run = Progress(clock)
        run.begin(total_phases=3)
        run.start_phase("Observe", "a")
        assert texts(run.pass_over()) == ["    Observe done in 0.0 s, 0 changed"]
        assert texts(run.start_phase("Gate", "c")) == ["==> Gate  (3/3)"]
        assert [phase.name for phase in run.phases] == ["Observe", "Gate"]

    def test_the_heading_of_a_lone_phase_is_just_its_name(self, clock: Clock) -> None:
        assert texts(Progress(clock).start_phase("Fabric", "a")) == ["==> Fabric"]

    def test_a_play_without_a_name_still_has_a_heading(self, clock: Clock) -> None:
        assert texts(Progress(clock).start_phase("", "a")) == ["==> Unnamed phase"]

    def test_check_mode_is_said_everywhere(self, clock: Clock) -> None:
        run = Progress(clock)
        assert "nothing is changed" in texts(run.begin(2, check_mode=True))[0]
        assert texts(run.start_phase("Fabric", "a")) == ["==> Fabric  (1/2, check mode)"]
        assert texts(run.changed("spark0", "t", "Write", would=True)) == ["  spark0  would change  Write"]
        assert "    Fabric done in 0.0 s, 1 would change" in texts(run.recap({}))

    def test_a_failed_phase_names_its_hosts(self, run: Progress) -> None:
        run.failed(Failure("spark1", "verify", "Verify jumbo frames", ("no",)))
        run.failed(Failure("spark1", "verify", "Verify jumbo frames", ("no",)))
        assert texts(run.end_phase())[-1] == "    Fabric ended after 0.0 s, 0 changed, failed on spark1"

    def test_a_phase_that_no_host_reached_is_not_called_done(self, run: Progress) -> None:
        run.failed(Failure("spark1", "verify", "Verify jumbo frames", ("no",)))
        run.start_phase("Image", "play-2")
        assert texts(run.end_phase()) == ["    Image was not run: no host could continue"]

    def test_nobody_left_is_said_once(self, run: Progress) -> None:
        assert texts(run.nobody_left()) == ["    No host can continue: the run stops here."]
        assert run.nobody_left() == []


class TestResults:
    def test_ok_and_skipped_say_nothing(self, run: Progress) -> None:
        assert run.ok("spark0", "verify", "Verify") == []
        assert run.skipped("spark1", "verify", "Verify") == []
        assert list(run.waiting) == ["spark2"]

    def test_ok_and_skipped_are_shown_with_verbosity(self, clock: Clock) -> None:
        run = Progress(clock, verbosity=1)
        assert texts(run.ok("spark0", "t", "Verify")) == ["  spark0  ok  Verify"]
        assert texts(run.skipped("spark0", "t", "Verify")) == ["  spark0  skipped  Verify"]

    def test_a_change_is_one_line(self, run: Progress) -> None:
        assert texts(run.changed("spark0", "verify", "Write the file", detail="2 of 3 items")) == [
            "  spark0  changed  Write the file (2 of 3 items)"
        ]

    def test_host_names_are_aligned(self, run: Progress) -> None:
        run.start_task("spark10", "verify", "Verify")
        assert texts(run.changed("spark0", "verify", "Write")) == ["  spark0   changed  Write"]

    def test_a_delegated_change_says_where(self, run: Progress) -> None:
        assert texts(run.changed("spark1", "verify", "Copy", label="spark1 -> spark0")) == [
            "  spark1 -> spark0  changed  Copy"
        ]

    def test_a_message_is_plain_lines(self, run: Progress) -> None:
        assert texts(run.said("spark0", "verify", "Say", ["one", "two"])) == ["  spark0  one", "  spark0  two"]

    def test_equal_failures_of_several_hosts_are_one_block(self, run: Progress) -> None:
        message = ("Found MTU 1500.", "Expected 9000.")
        for host in ("spark2", "spark1"):
            assert run.failed(Failure(host, "verify", "Verify jumbo frames", message, "verify.yml:3")) == []
        assert texts(run.ok("spark0", "verify", "Verify jumbo frames")) == [
            "",
            "FAILED  spark1, spark2: Verify jumbo frames",
            "    Found MTU 1500.",
            "    Expected 9000.",
            "    at verify.yml:3",
            "",
        ]

    def test_different_failures_are_different_blocks(self, run: Progress) -> None:
        run.failed(Failure("spark1", "verify", "Verify", ("one",)))
        run.failed(Failure("spark2", "verify", "Verify", ("two",)))
        titles = [text for text in texts(run.flush_failures()) if text.startswith("FAILED")]
        assert titles == ["FAILED  spark1: Verify", "FAILED  spark2: Verify"]

    def test_a_failure_does_not_wait_long_for_the_other_hosts(self, run: Progress, clock: Clock) -> None:
        run.failed(Failure("spark1", "verify", "Verify", ("one",)))
        clock.forward(1)
        assert run.tick() == []
        clock.forward(1)
        assert "FAILED  spark1: Verify" in texts(run.tick())
        assert run.tick() == []

    def test_the_last_host_to_fail_is_told_at_once(self, clock: Clock) -> None:
        run = Progress(clock)
        run.start_phase("Fabric", "a")
        run.start_task("spark0", "t", "Verify")
        assert "FAILED  spark0: Verify" in texts(run.failed(Failure("spark0", "t", "Verify", ("no",))))

    def test_an_unreachable_host_is_told_with_the_reason_and_what_to_do(self, run: Progress) -> None:
        run.failed(
            Failure(
                "spark2",
                "verify",
                "Verify",
                ("Reason: Connection refused",),
                unreachable=True,
                title="answer SSH",
                remedy="Do: ssh spark2",
            )
        )
        assert texts(run.flush_failures()) == [
            "",
            "UNREACHABLE  spark2 does not answer SSH",
            "    Reason: Connection refused",
            "    Do: ssh spark2",
            "    Task to run: Fabric: Verify",
            "",
        ]

    def test_an_ignored_failure_is_one_line_and_counts_its_change(self, run: Progress) -> None:
        lines = run.ignored(Failure("spark0", "verify", "Verify", ("no", "really")), changed=True)
        assert texts(lines) == ["  spark0  failed, ignored  Verify: no"]
        assert run.phases[-1].changed == 1
        assert run.phases[-1].failed == []


class TestWaiting:
    def test_the_live_line(self, run: Progress, clock: Clock) -> None:
        clock.forward(30)
        run.ok("spark0", "verify", "Verify jumbo frames")
        clock.forward(12)
        assert run.status(100) == "| Fabric 00:42  spark1, spark2: Verify jumbo frames (42 s)"

    def test_the_live_line_fits_the_terminal(self, run: Progress) -> None:
        assert run.status(40) == "| Fabric 00:00  spark0, spark1, spark..."
        assert all(len(run.status(width)) <= width for width in range(80))

    def test_nothing_is_waited_for_then_nothing_is_shown(self, clock: Clock) -> None:
        run = Progress(clock)
        run.start_phase("Fabric", "a")
        assert run.status(80) == ""
        assert run.heartbeat(20) == []

    def test_tries_and_items_are_shown(self, run: Progress) -> None:
        run.ok("spark1", "verify", "Verify")
        run.ok("spark2", "verify", "Verify")
        run.retry("spark0", attempts=2, retries=30)
        assert run.status(100).endswith("spark0: Verify jumbo frames (0 s, try 3 of 30)")
        run.item_done("spark0")
        assert run.status(100).endswith("(0 s, 1 item done)")
        run.item_done("spark0")
        assert run.status(100).endswith("(0 s, 2 items done)")

    def test_events_of_hosts_that_are_not_waited_for_are_harmless(self, run: Progress) -> None:
        run.retry("other", 1, 2)
        run.item_done("other")
        assert "other" not in run.waiting

    def test_hosts_at_different_tasks_are_told_apart(self, run: Progress, clock: Clock) -> None:
        run.ok("spark0", "verify", "Verify")
        clock.forward(5)
        run.start_task("spark0", "next", "Write the file")
        assert run.status(120).endswith("spark1, spark2: Verify jumbo frames (5 s); spark0: Write the file (0 s)")

    def test_a_question_to_the_operator_is_not_drawn_over(self, run: Progress, clock: Clock) -> None:
        run.start_task("spark0", "ask", "Ask", interactive=True)
        clock.forward(60)
        assert run.status(80) == ""
        assert run.heartbeat(20) == []

    def test_a_log_gets_a_sign_of_life_every_interval(self, run: Progress, clock: Clock) -> None:
        heard = []
        for _ in range(90):
            clock.forward(0.5)
            heard += texts(run.heartbeat(20))
        assert heard == [
            "  ... still waiting after 20 s: Fabric: Verify jumbo frames on spark0, spark1, spark2",
            "  ... still waiting after 40 s: Fabric: Verify jumbo frames on spark0, spark1, spark2",
        ]

    def test_the_interval_starts_anew_with_each_task(self, run: Progress, clock: Clock) -> None:
        clock.forward(20)
        assert run.heartbeat(20)
        for host in ("spark0", "spark1", "spark2"):
            run.ok(host, "verify", "Verify")
            run.start_task(host, "next", "Next")
        clock.forward(19)
        assert run.heartbeat(20) == []
        clock.forward(1)
        assert texts(run.heartbeat(20)) == ["  ... still waiting after 20 s: Fabric: Next on spark0, spark1, spark2"]

    def test_zero_turns_the_sign_of_life_off(self, run: Progress, clock: Clock) -> None:
        clock.forward(3600)
        assert run.heartbeat(0) == []


COUNTS = {"ok": 7, "changed": 0, "unreachable": 0, "failed": 0, "skipped": 3, "rescued": 0, "ignored": 0}


class TestRecap:
    def test_counters_are_found_by_the_usual_search(self, clock: Clock) -> None:
        lines = texts(Progress(clock).recap({"spark0": COUNTS}))
        assert "spark0 : ok=7 changed=0 unreachable=0 failed=0 skipped=3 rescued=0 ignored=0" in lines

    def test_counters_of_several_hosts_are_aligned(self, clock: Clock) -> None:
        more = {**COUNTS, "ok": 12}
        lines = texts(Progress(clock).recap({"spark10": more, "a": COUNTS}))
        assert "a       : ok=7  changed=0 unreachable=0 failed=0 skipped=3 rescued=0 ignored=0" in lines
        assert "spark10 : ok=12 changed=0 unreachable=0 failed=0 skipped=3 rescued=0 ignored=0" in lines

    def test_a_fleet_is_one_sentence(self, clock: Clock) -> None:
        fleet = {f"n{number}": COUNTS for number in range(40)}
        lines = Progress(clock).recap(fleet)
        assert "All 40 hosts came through: 40 unchanged, 0 changed" in texts(lines)
        assert not [line for line in texts(lines) if " : ok=" in line]
        assert len([line for line in texts(Progress(clock, verbosity=1).recap(fleet)) if " : ok=" in line]) == 40

    def test_a_fleet_has_lines_for_those_in_trouble(self, clock: Clock) -> None:
        fleet = {f"n{number}": COUNTS for number in range(40)}
        fleet |= {"n7": {**COUNTS, "unreachable": 1}, "n9": {**COUNTS, "failed": 1, "changed": 2}}
        fleet |= {f"n3{number}": {**COUNTS, "changed": 1} for number in range(9)}
        lines = texts(Progress(clock).recap(fleet))
        assert [line.partition(" ")[0] for line in lines if " : ok=" in line] == ["n7", "n9"]
        names = ", ".join(f"n3{number}" for number in range(8))
        assert f"38 of 40 hosts came through: 29 unchanged, 9 changed ({names} and 1 more)" in lines

    def test_a_fleet_that_is_down_is_no_scroll_either(self, clock: Clock) -> None:
        fleet = {f"n{number}": {**COUNTS, "unreachable": 1} for number in range(40)}
        lines = texts(Progress(clock).recap(fleet))
        assert len([line for line in lines if " : ok=" in line]) == 16
        assert "... and 24 more that failed or did not answer" in lines
        assert "0 of 40 hosts came through: 0 unchanged, 0 changed" in lines

    def test_time_per_phase_and_the_slowest_tasks(self, clock: Clock) -> None:
        run = Progress(clock)
        run.begin(2)
        for phase, task, seconds in (
            ("Plan", "Decide", 1.0),
            ("Image", "Pull", 90.0),
            ("Image", "Check", 5.0),
            ("Gate", "Ask", 4.0),
        ):
            run.start_phase(phase, phase)
            run.start_task("spark1", task, task)
            clock.forward(seconds)
            run.changed("spark1", task, task)
        lines = texts(run.recap({"spark1": COUNTS}))
        at = lines.index("Slowest tasks")
        assert lines[at - 6 :] == [
            "Phase        Time  Share  Changed",
            "Plan        1.0 s    1 %        1",
            "Image  1 min 35 s   95 %        2",
            "Gate        4.0 s    4 %        1",
            "Total  1 min 40 s               4",
            "",
            "Slowest tasks",
            "  1 min 30 s  Image: Pull (spark1)",
            "       5.0 s  Image: Check (spark1)",
            "       4.0 s  Gate: Ask (spark1)",
        ]

    def test_it_says_again_where_it_failed_but_not_what_was_rescued(self, run: Progress) -> None:
        run.failed(Failure("spark0", "verify", "Verify", ("no",)))
        run.failed(Failure("spark1", "verify", "Verify", ("no",)))
        run.failed(Failure("spark2", "verify", "Verify", ("no",)))
        failed, rescued = {**COUNTS, "failed": 1}, {**COUNTS, "rescued": 1}
        lines = texts(run.recap({"spark0": failed, "spark1": failed, "spark2": rescued}))
        assert lines[-1] == "Failed in Fabric: Verify on spark0, spark1"

    def test_the_record_for_programs_has_why_hosts_failed_but_not_what_was_rescued(self, run: Progress) -> None:
        run.failed(Failure("spark0", "verify", "Verify", ("no carrier",)))
        run.failed(Failure("spark1", "verify", "Verify", ("no",)))
        counts = {"spark0": {**COUNTS, "failed": 1}, "spark1": {**COUNTS, "rescued": 1}}
        assert run.timings(counts)["reasons"] == {"spark0": "no carrier (Fabric)"}

    def test_a_run_without_hosts(self, clock: Clock) -> None:
        assert "No host took part." in texts(Progress(clock).recap({}))

    def test_the_record_for_programs(self, run: Progress, clock: Clock) -> None:
        clock.forward(2.5)
        run.changed("spark0", "verify", "Verify")
        run.recap({})
        assert run.timings({"spark0": COUNTS}) == {
            "phases": [{"name": "Fabric", "seconds": 2.5, "changed": 1}],
            "total_seconds": 2.5,
            "check_mode": False,
            "hosts": {"spark0": COUNTS},
            "reasons": {},
        }
