# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result

from tests.unit.fake_host import FakeHost, failure, no_answer, not_installed


def test_the_longest_beginning_of_a_command_line_is_answered() -> None:
    host = FakeHost({"systemctl": "any\n", "systemctl show": "shown\n", "false": 1, "": not_installed})
    assert host.run(["systemctl", "show", "a"]) == Result(("systemctl", "show", "a"), 0, "shown\n")
    assert host.run(["systemctl", "stop", "a"]).stdout == "any\n"
    assert host.run(["false"]) == Result(("false",), 1)
    assert host.run(["dcb"]) == Result(("dcb",), 127, problem="dcb is not installed")
    assert host.lines == ["systemctl show a", "systemctl stop a", "false", "dcb"]


def test_an_unexpected_command_fails_and_is_named() -> None:
    with pytest.raises(AssertionError, match="unexpected command: iperf3 --json"):
        FakeHost({"ip": ""}).run(["iperf3", "--json"])
    with pytest.raises(AssertionError, match="unexpected command: docker ps"):
        FakeHost({"docker run": ""}).run(["docker", "ps"])


def test_an_unexpected_file_fails_and_is_named() -> None:
    host = FakeHost(files={"/etc/a": "text", "/etc/b": None})
    for read in (host.read_text, host.file_state, host.size_and_mtime, host.sha256):
        with pytest.raises(AssertionError, match="unexpected file: /etc/c"):
            read("/etc/c")


def test_replies_come_in_turn_and_the_last_one_stays() -> None:
    host = FakeHost({"a": ["first", failure("then", 3)]})
    told = [host.run(["a"]) for _ in range(3)]
    assert [(one.rc, one.stdout, one.stderr) for one in told] == [(0, "first", ""), (3, "", "then"), (3, "", "then")]


def test_functions_are_given_the_call_and_exceptions_are_raised() -> None:
    host = FakeHost({"cat": lambda call: f"{call.stdin} {call.env}", "a": no_answer, "b": OSError("gone")})
    assert host.run(["cat"], env={"x": "1"}, stdin="in").stdout == "in {'x': '1'}"
    assert host.run(["a"], timeout=7).problem == "a gave no answer within 7 s"
    with pytest.raises(OSError, match="gone"):
        host.run(["b"])


def test_a_program_is_there_where_it_has_an_answer() -> None:
    host = FakeHost({"docker ps": "", "dcb": not_installed})
    assert [host.has(one) for one in ("docker", "dcb", "ip")] == [True, False, False]
    assert FakeHost({"": ""}).has("ip")


def test_files_are_those_it_was_given_and_can_be_written() -> None:
    host = FakeHost(files={"/etc/a": "text", "/etc/d/b": "", "/etc/gone": None, "/proc/": None})
    assert (host.read_text("/etc/a"), host.read_text("/etc/gone"), host.read_text("/proc/1/stat")) == (
        "text",
        None,
        None,
    )
    assert host.names("/etc") == ["a", "d"]
    assert host.names("/nowhere") == []
    assert (host.size_and_mtime("/etc/a"), host.size_and_mtime("/etc/gone")) == ((4, 1), None)
    assert (host.file_state("/etc/a")["exists"], host.file_state("/etc/gone")["exists"]) == (True, False)
    assert host.files is not None
    host.files["/etc/gone"] = "back"
    assert host.read_text("/etc/gone") == "back"
    with pytest.raises(FileNotFoundError):
        host.sha256("/proc/1")


def test_without_files_those_of_this_machine_are_read_as_root_s(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("text")
    host = FakeHost()
    assert (host.read_text(str(path)), host.names(str(tmp_path))) == ("text", ["a"])
    assert host.file_state(str(path))["owner"] == "root"
    assert host.file_state(f"{path}b")["exists"] is False
