# SPDX-License-Identifier: Apache-2.0
"""The record of a proof is put there whole, or not at all."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.modules.fabric_record import put


def test_the_record_is_kept_and_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "firstlight" / "fabric.proof"
    put(str(path), "proven\n")
    assert path.read_text() == "proven\n"
    assert path.stat().st_mode & 0o7777 == 0o644
    assert [file.name for file in path.parent.iterdir()] == ["fabric.proof"]
    put(str(path), None)
    put(str(path), None)
    assert not path.exists()
