# SPDX-License-Identifier: Apache-2.0
"""ssh_key: made once, kept, never shown."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.modules.ssh_key import BEGIN, END, KeptKeyError, converge

from tests.unit.fake_host import Call, FakeHost, not_installed

KEY = f"{BEGIN}\nAAAA\n{END}\n"


def make(call: Call) -> int:
    """Stand for ssh-keygen."""
    Path(call.argv[-1]).write_text(KEY)
    return 0


MAKER = FakeHost({"ssh-keygen": make})
WITHOUT = FakeHost({"ssh-keygen": not_installed})


def test_a_key_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert converge(MAKER, str(path), None, check_mode=True) == {"changed": True, "exists": False}
    assert not path.exists()
    assert converge(MAKER, str(path), None, check_mode=False) == {"changed": True, "exists": True}
    assert path.read_text() == KEY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert converge(WITHOUT, str(path), None, check_mode=False) == {"changed": False, "exists": True}


def test_a_given_key_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY)
    other = KEY.replace("AAAA", "BBBB")
    assert converge(WITHOUT, str(path), other.strip(), check_mode=False)["changed"]
    assert path.read_text() == other


def test_a_loose_mode_is_corrected(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY)
    path.chmod(0o644)
    assert converge(WITHOUT, str(path), None, check_mode=True)["changed"]
    assert converge(WITHOUT, str(path), None, check_mode=False)["changed"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_no_key_is_refused_and_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(KeptKeyError, match="is no private key") as error:
        converge(MAKER, str(path), "hunter2", check_mode=False)
    assert "hunter2" not in str(error.value)
    path.write_text("something")
    with pytest.raises(KeptKeyError, match="remove it"):
        converge(MAKER, str(path), None, check_mode=False)
    path.unlink()
    with pytest.raises(KeptKeyError, match="install openssh-client"):
        converge(WITHOUT, str(path), None, check_mode=False)
