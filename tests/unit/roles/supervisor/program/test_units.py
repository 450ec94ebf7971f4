# SPDX-License-Identifier: Apache-2.0
"""What systemd, its journal and Docker say, and what is concluded when they say nothing."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import RC_TIMEOUT, Result
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import UnitReport
from ansible_collections.firstlight.cluster.roles.supervisor.program import units

from tests.unit.fake_host import FakeHost


def said(stdout: str = "", stderr: str = "", rc: int = 0, problem: str = "") -> FakeHost:
    """A host on which every command says the same."""
    return FakeHost({"": Result((), rc, stdout, stderr, problem)})


def block(unit: str, **properties: str) -> str:
    told = {"Id": unit, "Names": unit, "LoadState": "loaded", "ActiveState": "inactive", "SubState": "dead"}
    told |= {"Result": "success", "ExecMainCode": "0", "ExecMainStatus": "0", "Job": "0", **properties}
    return "".join(f"{name}={value}\n" for name, value in told.items())


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, UnitReport()),
        (
            {"ActiveState": "active", "SubState": "running"},
            UnitReport(active=True, running=True, words="running"),
        ),
        (
            {"ActiveState": "activating", "SubState": "start-pre"},
            UnitReport(active=True, words="activating (start-pre)"),
        ),
        (
            {"ActiveState": "deactivating", "SubState": "stop-sigterm"},
            UnitReport(stopping=True, words="deactivating (stop-sigterm)"),
        ),
        (
            {"ActiveState": "failed", "Result": "exit-code", "ExecMainCode": "1", "ExecMainStatus": "125"},
            UnitReport(failed=True, words="failed (exit status 125)"),
        ),
        (
            {"ActiveState": "failed", "Result": "signal", "ExecMainCode": "2", "ExecMainStatus": "9"},
            UnitReport(failed=True, words="failed (signal 9)"),
        ),
        (
            {"ActiveState": "failed", "Result": "oom-kill", "ExecMainCode": "2", "ExecMainStatus": "9"},
            UnitReport(failed=True, words="failed (oom-kill)"),
        ),
        ({"ExecMainCode": "1"}, UnitReport(words="inactive (exit status 0)")),
        ({"LoadState": "not-found"}, UnitReport(words="not-found")),
        ({"ActiveState": "failed", "Job": "1234"}, UnitReport(active=True, words="waiting for its start")),
    ],
)
def test_a_unit_is_told_in_words(properties: dict[str, str], expected: UnitReport) -> None:
    host = said(block("a.service") + "\n" + block("b.service", **properties))
    assert units.look(host, ["a.service", "b.service"])["b.service"].report == expected


@pytest.mark.parametrize(
    "host",
    [
        said(problem="systemctl gave no answer within 15 s", rc=RC_TIMEOUT),
        said(stderr="Failed to connect to bus: No such file or directory", rc=1),
        said(block("other.service")),
        said(""),
    ],
)
def test_a_systemd_that_does_not_answer_is_not_a_unit_that_is_gone(host: FakeHost) -> None:
    with pytest.raises(units.NotToldError, match=r"systemd did not report the state of a\.service"):
        units.look(host, ["a.service"])


def test_containers_are_told_by_their_whole_names() -> None:
    host = said("firstlight-ray-old\nfirstlight-server\n")
    assert units.containers_left(host, ["firstlight-ray", "firstlight-server"]) == ["firstlight-server"]
    with pytest.raises(units.NotToldError, match="Docker did not list"):
        units.containers_left(said(rc=1, stderr="Cannot connect to the Docker daemon"), ["firstlight-ray"])


def test_without_containers_docker_is_not_asked() -> None:
    host = said()
    assert (units.containers_left(host, []), host.ran) == ([], [])


def journal(*entries: tuple[float, object], rest: str = "") -> FakeHost:
    told = [{"__MONOTONIC_TIMESTAMP": str(int(at * 1e6)), "MESSAGE": message} for at, message in entries]
    return said("\n".join(map(json.dumps, told)) + rest)


def test_the_last_line_is_one_that_tells_a_reason_and_has_no_secret() -> None:
    host = journal(
        (91, "loading"),
        (92, "ValueError: no such flag, key my-secret-key-1234"),
        (93, "INFO: bye"),
        (94, "Error: No such container: a"),
        (94, "a"),
    )
    told = units.last_line(host, "a.service", "0a1b", 95_000_000, ["my-secret-key-1234"])
    assert told == "ValueError: no such flag, key ********"
    assert host.ran[0][1:3] == ("_SYSTEMD_UNIT=a.service", "_SYSTEMD_INVOCATION_ID=0a1b")
    assert units.last_line(journal((1, "one"), (2, "two")), "a.service", "", 0, []) == "two"
    assert units.last_line(said(), "a.service", "", 0, []) == ""


def test_what_was_said_long_before_the_end_is_not_its_reason() -> None:
    started = (10, "ERROR: a warning of the start"), (11, "INFO: Application startup complete.")
    killed = 900_000_000
    assert units.last_line(journal(*started), "a.service", "", killed, []) == ""
    assert units.last_line(journal(*started, (895, "INFO: asked")), "a.service", "", killed, []) == "INFO: asked"
    crashed = journal(*started, (850, "RuntimeError: lost a rank"), (899, "INFO: shutting down"))
    assert units.last_line(crashed, "a.service", "", killed, []) == "RuntimeError: lost a rank"


def test_a_journal_entry_that_cannot_be_read_is_passed_over() -> None:
    host = journal((1, [240, 32, 66]), (2, None), rest="\nhalf a {line\n[]\n")
    assert units.last_line(host, "a.service", "", 0, []) == "\ufffd B"


@pytest.mark.parametrize(
    ("properties", "ended"),
    [
        ({"InactiveExit": "5", "ExecMainExit": "9", "StateChange": "12"}, 9),
        ({"InactiveExit": "10", "ExecMainExit": "9", "StateChange": "12"}, 12),
        ({"InactiveExit": "10", "ExecMainExit": "0", "StateChange": "12"}, 12),
        ({}, 0),
    ],
)
def test_the_end_is_that_of_the_process_where_this_start_came_to_one(properties: dict[str, str], ended: int) -> None:
    host = said(block("a.service", **{f"{name}TimestampMonotonic": at for name, at in properties.items()}))
    assert units.look(host, ["a.service"])["a.service"].ended == ended


@pytest.mark.parametrize(
    ("stderr", "rc", "problem"),
    [("", 0, ""), ("Error: No such container: x", 1, ""), ("Error: device busy", 1, "cannot be removed")],
)
def test_a_container_that_is_gone_already_is_no_problem(stderr: str, rc: int, problem: str) -> None:
    host = said(stderr=stderr, rc=rc)
    told = units.remove(host, "firstlight-ray")
    assert problem in told
    assert bool(told) == bool(problem)
    assert host.ran == [("docker", "rm", "--force", "--volumes", "firstlight-ray")]


def test_starting_and_stopping_do_not_wait() -> None:
    host = said()
    assert units.start(host, "a.service") == units.stop(host, "a.service") == units.kill(host, "a.service") == ""
    assert host.lines == [
        "systemctl reset-failed -- a.service",
        "systemctl start --no-block -- a.service",
        "systemctl stop --no-block -- a.service",
        "systemctl kill --signal=SIGKILL -- a.service",
    ]
    assert "cannot be started" in units.start(said(rc=5, stderr="Unit a.service not found."), "a.service")
