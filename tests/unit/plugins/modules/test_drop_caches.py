# SPDX-License-Identifier: Apache-2.0
"""drop_caches, against files that stand for the kernel's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.modules import drop_caches


class EndedError(Exception):
    """What exit_json and fail_json do here."""

    def __init__(self, **result: Any) -> None:
        super().__init__(result.get("msg", ""))
        self.result = result


class Module:
    """Stands for AnsibleModule."""

    check_mode = False

    def __init__(self, **_: Any) -> None:
        self.params = {"level": 3}

    def exit_json(self, **result: Any) -> None:
        raise EndedError(**result)

    def fail_json(self, **result: Any) -> None:
        raise EndedError(failed=True, **result)


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\n")
    monkeypatch.setattr(drop_caches, "AnsibleModule", Module)
    monkeypatch.setattr(drop_caches, "MEMINFO", str(tmp_path / "meminfo"))
    monkeypatch.setattr(drop_caches, "CONTROL", str(tmp_path / "drop_caches"))
    monkeypatch.setattr("os.sync", lambda: None)
    return tmp_path / "drop_caches"


def test_drops_and_is_no_change(control: Path) -> None:
    with pytest.raises(EndedError) as ended:
        drop_caches.main()
    assert ended.value.result == {"changed": False, "freed_bytes": 0}
    assert control.read_text() == "3\n"


def test_check_mode_drops_nothing(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Module, "check_mode", True)
    with pytest.raises(EndedError):
        drop_caches.main()
    assert not control.exists()


def test_a_kernel_that_refuses_is_explained(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drop_caches, "CONTROL", str(control / "no" / "such"))
    with pytest.raises(EndedError, match="run with become"):
        drop_caches.main()
