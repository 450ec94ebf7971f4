# SPDX-License-Identifier: Apache-2.0
"""The runner on parts that take no time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.suite import run as runner
from tests.suite.parts import Part
from tests.suite.run import Runner
from tests.suite.times import PartResult

pytestmark = pytest.mark.slow  # the runner looks at its parts twice a second

WRITES = "import os; print('said'); open(os.environ['FIRSTLIGHT_TEST_EVENTS'], 'w').write({events!r})"


@pytest.fixture(autouse=True)
def _own_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(runner, "CHECKOUT", tmp_path)


def python(name: str, code: str, *, first: bool = False) -> Part:
    # A word of a command is a template: braces are doubled.
    words = (sys.executable, "-c", code.replace("{", "{{").replace("}", "}}"))
    return Part(name, 1, in_test=True, first=first, command=words)


def results_of(*parts: Part, side_by_side: int = 2) -> dict[str, PartResult]:
    return {result.name: result for result in Runner(list(parts), "test", side_by_side, []).run()}


def test_all_parts_run_although_one_fails(capsys: pytest.CaptureFixture[str]) -> None:
    found = results_of(python("good", "pass"), python("bad", "print('why it failed'); raise SystemExit(3)"))
    assert {name: result.status for name, result in found.items()} == {"good": 0, "bad": 3}
    said = capsys.readouterr().out
    assert "why it failed" in said
    assert "bad ended with status 3" in said


def test_what_a_part_notes_is_kept_and_failures_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        {"kind": "test", "name": "a::b", "seconds": 0.5, "outcome": "passed"},
        {"kind": "test", "name": "a::c", "seconds": 0.5, "outcome": "failed"},
    ]
    code = WRITES.format(events="".join(json.dumps(line) + "\n" for line in lines))
    found = results_of(python("one", code))
    assert [event.name for event in found["one"].events] == ["a::b", "a::c"]
    said = capsys.readouterr().out
    assert "failed in 0 s: test a::c" in said
    assert "a::b" not in said


def test_no_more_parts_run_at_a_time_than_allowed(tmp_path: Path) -> None:
    """Each part leaves a file while it runs and notes how many there are."""
    place = tmp_path / "running"
    place.mkdir()
    code = (
        f"import os, pathlib, time; place = pathlib.Path({str(place)!r}); "
        "mine = place / str(os.getpid()); mine.touch(); "
        "time.sleep(0.2); print(len(list(place.iterdir()))); mine.unlink()"
    )
    results_of(*(python(f"part{number}", code) for number in range(3)), side_by_side=1)
    assert {path.read_text().strip() for path in (tmp_path / "logs").glob("*.log")} == {"1"}


def test_labs_wait_for_what_comes_first(tmp_path: Path) -> None:
    mark = tmp_path / "done"
    early = python("early", f"import pathlib, time; time.sleep(0.3); pathlib.Path({str(mark)!r}).touch()", first=True)
    late = python("late", f"import pathlib; raise SystemExit(not pathlib.Path({str(mark)!r}).exists())")
    assert {name: result.status for name, result in results_of(early, late).items()} == {"early": 0, "late": 0}


def test_a_pytest_part_without_a_test_fails() -> None:
    part = Part("empty", 1, in_test=True, command=(sys.executable, "-c", "pass", "pytest"))
    assert results_of(part)["empty"].status == 5
