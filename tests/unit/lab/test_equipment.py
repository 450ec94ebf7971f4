# SPDX-License-Identifier: Apache-2.0
"""The programs that run on the lab's nodes."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firstlight.lab.images import equipment

LIMITS = [{"type": "RLIMIT_MEMLOCK", "hard": 2**64 - 1, "soft": 2**64 - 1}]


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The OCI runtime in front of the real one, with the hand-over recorded."""
    source = tmp_path / "runc"
    source.write_text(equipment("runc"))
    program = SimpleNamespace(**runpy.run_path(str(source), run_name="runc"))
    handed: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda _, argv: handed.append(argv))
    program.handed = handed
    return program


@pytest.mark.parametrize("bundle", [["--bundle", "{}"], ["--bundle={}"], ["-b", "{}"]])
def test_a_container_is_made_without_limits_and_is_otherwise_as_asked(
    runtime: Any, tmp_path: Path, bundle: list[str]
) -> None:
    config = {"process": {"args": ["ray"], "rlimits": LIMITS}, "root": {"path": "rootfs"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    argv = ["--root", "/run/runc", "create", *(word.format(tmp_path) for word in bundle), "name"]
    runtime.main(argv)
    assert json.loads((tmp_path / "config.json").read_text()) == {
        "process": {"args": ["ray"]},
        "root": {"path": "rootfs"},
    }
    assert runtime.handed == [["runc", *argv]]


def test_a_process_that_joins_a_container_has_no_limits_either(runtime: Any, tmp_path: Path) -> None:
    process = tmp_path / "process.json"
    process.write_text(json.dumps({"args": ["ray", "status"], "rlimits": LIMITS}))
    runtime.main(["exec", "--process", str(process), "name"])
    assert json.loads(process.read_text()) == {"args": ["ray", "status"]}


def test_other_commands_are_handed_over_untouched(runtime: Any) -> None:
    runtime.main(["delete", "name"])
    assert runtime.handed == [["runc", "delete", "name"]]
