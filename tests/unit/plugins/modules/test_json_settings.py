# SPDX-License-Identifier: Apache-2.0
"""json_settings: others' settings stay, and a broken file is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.modules.json_settings import converge

from tests.unit.fake_host import FakeHost


def run(path: Path, settings: dict[str, Any], check: bool = False, **more: Any) -> dict[str, Any]:
    parameters = {"path": str(path), "settings": settings, "whole": [], "mode": "0644", **more}
    return converge(parameters, check, FakeHost(), lambda kept: f"{kept}.old")


def test_merge_keep_and_leave_it_then(tmp_path: Path) -> None:
    path = tmp_path / "daemon.json"
    path.write_text('{"proxies": {"https-proxy": "http://u:secret@p"}, "debug": true}')
    path.chmod(0o644)
    result = run(path, {"debug": False}, check=True)
    assert result["changed"]
    assert "secret" in path.read_text()
    assert json.loads(path.read_text())["debug"] is True
    result = run(path, {"debug": False})
    assert result["backup_file"] == f"{path}.old"
    assert json.loads(path.read_text()) == {"proxies": {"https-proxy": "http://u:secret@p"}, "debug": False}
    assert result["diff"]["before"] == '{\n  "debug": true\n}\n'
    assert "secret" not in json.dumps(result)
    assert not run(path, {"debug": False})["changed"]


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    path = tmp_path / "docker" / "daemon.json"
    assert run(path, {"a": 1}, check=True)["changed"]
    assert not path.parent.exists()
    result = run(path, {"a": 1})
    assert "backup_file" not in result
    assert path.read_text() == '{\n  "a": 1\n}\n'
    assert path.stat().st_mode & 0o777 == 0o644


def test_another_mode_is_corrected(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    run(path, {"a": 1})
    path.chmod(0o600)
    assert run(path, {"a": 1})["changed"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_a_broken_file_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"cannot be merged with.*expected a JSON object\. Nothing was changed"):
        run(path, {"a": 1})
    assert path.read_text() == text
