# SPDX-License-Identifier: Apache-2.0
"""ssh_key: made once, kept, never shown."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.modules.ssh_key import BEGIN, END, KeptKeyError, converge

KEY = f"{BEGIN}\nAAAA\n{END}\n"


class Maker(Host):
    """ssh-keygen without its work."""

    def run(self, argv: Sequence[str], *_: object, **__: object) -> Result:
        words = list(argv)
        Path(words[-1]).write_text(KEY)
        return Result(tuple(words), 0)


class Without(Host):
    """A host that has none."""

    def run(self, argv: Sequence[str], *_: object, **__: object) -> Result:
        return Result(("ssh-keygen",), 127, problem="ssh-keygen is not installed")


def test_a_key_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert converge(Maker(), str(path), None, check_mode=True) == {"changed": True, "exists": False}
    assert not path.exists()
    assert converge(Maker(), str(path), None, check_mode=False) == {"changed": True, "exists": True}
    assert path.read_text() == KEY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert converge(Without(), str(path), None, check_mode=False) == {"changed": False, "exists": True}


def test_a_given_key_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY)
    other = KEY.replace("AAAA", "BBBB")
    assert converge(Without(), str(path), other.strip(), check_mode=False)["changed"]
    assert path.read_text() == other


def test_a_loose_mode_is_corrected(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY)
    path.chmod(0o644)
    assert converge(Without(), str(path), None, check_mode=True)["changed"]
    assert converge(Without(), str(path), None, check_mode=False)["changed"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_no_key_is_refused_and_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(KeptKeyError, match="is no private key") as error:
        converge(Maker(), str(path), "hunter2", check_mode=False)
    assert "hunter2" not in str(error.value)
    path.write_text("something")
    with pytest.raises(KeptKeyError, match="remove it"):
        converge(Maker(), str(path), None, check_mode=False)
    path.unlink()
    with pytest.raises(KeptKeyError, match="install openssh-client"):
        converge(Without(), str(path), None, check_mode=False)
