# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result, write_file

HOST = Host()


def test_output_and_status_come_back() -> None:
    result = HOST.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (result.rc, result.stdout, result.stderr, result.ok) == (3, "out\n", "err\n", False)
    assert result.summary == "sh returned 3: err"


def test_locale_is_fixed_and_input_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert HOST.run(["sh", "-c", "echo $LC_ALL; cat"], stdin="text").stdout == "C\ntext"


def test_arguments_are_not_a_shell_line() -> None:
    assert HOST.run(["echo", "$HOME; `id`"]).stdout == "$HOME; `id`\n"


def test_a_missing_program_is_an_answer() -> None:
    result = HOST.run(["no-such-program-anywhere"])
    assert (result.rc, result.summary) == (127, "no-such-program-anywhere is not installed")


def test_a_file_that_is_no_program_is_an_answer(tmp_path: Path) -> None:
    script = tmp_path / "broken"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    result = HOST.run([str(script)])
    assert result.rc == 126
    assert "cannot be run" in result.problem


def run_until_it_spoke(line: str) -> Result:
    """A shell that hangs, given as little time as it needs to say something on this machine."""
    for timeout in (0.1, 0.5, 5, 50):
        result = HOST.run(["sh", "-c", line], timeout)
        if result.partial:
            break
    return result


def test_a_hanging_program_is_ended_with_its_children() -> None:
    result = run_until_it_spoke("sleep 600 & echo $!; wait")
    assert result.rc == 124
    assert result.problem.startswith("sh gave no answer within ")
    child = Path("/proc", result.partial.strip(), "stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        # On a busy machine a killed process waits for a processor to die on; nobody may have fetched its status then.
        while child.read_text().rpartition(")")[2].split()[0] not in "ZX":
            time.sleep(0.01)


def test_what_a_hanging_program_had_said_is_no_answer_but_not_lost() -> None:
    result = run_until_it_spoke("echo so far; exec sleep 600")
    assert (result.rc, result.stdout, result.partial) == (124, "", "so far\n")


@pytest.mark.slow  # it waits a second
def test_what_a_program_had_said_is_not_lost_where_its_child_keeps_the_output_open() -> None:
    # Who lets go of the session cannot be killed with it.
    result = run_until_it_spoke("echo so far; setsid sleep 10 & wait")
    assert (result.rc, result.partial) == (124, "so far\n")


def test_broken_text_does_not_raise() -> None:
    assert HOST.run(["printf", "\\377x"]).stdout == "\ufffdx"


def test_programs_in_sbin_are_found_without_a_login_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert HOST.has("sh")
    assert HOST.run(["sh", "-c", "exit 0"]).ok


@pytest.mark.parametrize(
    ("result", "summary"),
    [
        (Result(("a",), 1, "\n said\n", ""), "a returned 1: said"),
        (Result(("a",), 2), "a returned 2 and printed nothing"),
    ],
)
def test_summaries(result: Result, summary: str) -> None:
    assert result.summary == summary


def test_a_file_is_told_by_digest_mode_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 3_000_000)
    path.chmod(0o600)
    state = HOST.file_state(str(path))
    assert state["sha256"] == hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert (state["exists"], state["mode"]) == (True, "0600")
    assert state["owner"] == path.owner()
    assert state["group"] == path.group()


def test_what_is_not_a_file_does_not_exist_as_one(tmp_path: Path) -> None:
    assert HOST.file_state(str(tmp_path))["exists"] is False
    assert HOST.file_state(str(tmp_path / "none"))["exists"] is False
    (tmp_path / "file").write_text("")
    assert HOST.file_state(str(tmp_path / "file" / "below"))["exists"] is False
    assert HOST.size_and_mtime(str(tmp_path)) is None
    assert HOST.read_text(str(tmp_path / "none")) is None


def test_size_and_time_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("abc")
    os.utime(path, ns=(1, 1_700_000_000_123_456_789))
    assert HOST.size_and_mtime(str(path)) == (3, 1_700_000_000_123_456_789)


def test_free_space_of_a_directory_that_is_yet_to_be_made(tmp_path: Path) -> None:
    assert HOST.disk_free(str(tmp_path / "a" / "b")) > 0


def test_used_space_counts_blocks_and_stops_counting(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").write_bytes(b"x" * 8192)
    (tmp_path / "sub" / "b").write_bytes(b"x" * 8192)
    assert HOST.disk_used(str(tmp_path)) >= 16384
    assert HOST.disk_used(str(tmp_path), most=1) < HOST.disk_used(str(tmp_path))
    assert HOST.disk_used(str(tmp_path / "none")) == 0


@pytest.mark.parametrize("content", ["text ä\n", b"\x00\xff"])
def test_a_file_is_put_in_place_with_its_mode(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "file"
    path.write_text("former")
    path.chmod(0o640)
    write_file(str(path), content, 0o600)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert path.stat().st_mode & 0o7777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_file_without_a_directory_is_put_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_file("file", "text", 0o644)
    assert (tmp_path / "file").read_text() == "text"


def test_a_file_that_cannot_be_put_in_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_file(str(tmp_path / "taken"), "text", 0o644)
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]
