# SPDX-License-Identifier: Apache-2.0
"""What is sent to a host: all that it needs, nothing that only the controller has, and no file stays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.zipapps import closure

from firstlight import remote_program
from firstlight.remote_program import OTHER_PYTHON, PACKAGE, archive, command, message
from firstlight.verifying import COMPLETE, CONNECTIVITY, HISTORY, OBSERVE

MOST_LINES = 16_500
MOST_BYTES = 500_000
"""Of what observes a host. Whoever lets it grow raises these, and says why."""


def answer(function: str, arguments: dict[str, Any], directory: Path, *, source: bool = False) -> dict[str, Any]:
    """Run it as a host does: with nothing but standard input."""
    done = subprocess.run(
        ["sh", "-c", command(sys.executable, source=source)],
        input=message(function, arguments, source=source),
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "HOME": str(directory), "TMPDIR": str(directory)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow  # a start of Python each
@pytest.mark.parametrize("source", [False, True])
def test_a_host_answers_and_keeps_nothing(tmp_path: Path, source: bool) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('somebody else wrote this')")
    found = answer(OBSERVE, {"desired_by_role": {"tuning": {"sysctl": {"no.such": "1"}}}}, tmp_path, source=source)
    assert found["answer"]["sysctl"] == {"no.such": None}
    assert [path.name for path in tmp_path.iterdir()] == ["json.py"]


@pytest.mark.slow  # a start of Python each
@pytest.mark.parametrize(
    ("function", "arguments", "key", "told"),
    [
        (HISTORY, {"packages": {}, "paths": [], "units": [], "sysctl": [], "fwupd": False}, "answer", "errors"),
        (
            CONNECTIVITY,
            {"params": {"host": "a", "members": ["b"], "peers": []}},
            "problem",
            "a is not among the members b",
        ),
        (COMPLETE, {"params": {"url": "ftp://x", "model": "m", "expect_tensor_parallel": 1}}, "problem", "ftp://x"),
    ],
)
def test_every_function_travels_with_what_it_imports(
    function: str, arguments: dict[str, Any], key: str, told: str, tmp_path: Path
) -> None:
    assert told in answer(function, arguments, tmp_path)[key]


@pytest.mark.slow  # a start of Python
def test_another_python_asks_for_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(remote_program, "MAGIC", "00000000")
    assert answer(OBSERVE, {"desired_by_role": {}}, tmp_path) == {"problem": OTHER_PYTHON}


def test_it_brings_no_more_than_it_did() -> None:
    files = [path for path in closure([f"{PACKAGE}.observe.probes"]).values() if path is not None]
    assert sum(path.read_text(encoding="utf-8").count("\n") for path in files) <= MOST_LINES
    assert len(archive("observe.probes")) <= MOST_BYTES


def test_what_compares_stays_on_the_controller() -> None:
    for function in (OBSERVE, HISTORY, CONNECTIVITY, COMPLETE):
        names = {name.rpartition(".")[2] for name in closure([f"{PACKAGE}.{function.rpartition('.')[0]}"])}
        assert not names & {"records", "differences", "explain", "states", "matrix"}, function
