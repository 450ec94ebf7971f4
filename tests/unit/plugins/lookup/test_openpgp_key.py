# SPDX-License-Identifier: Apache-2.0
"""Keys from files, in both forms in which repositories publish them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import lookup_loader

KEY = Path(__file__).parents[3] / "fixtures" / "apt" / "key.asc"


def look_up(path: Path) -> str:
    plugin = lookup_loader.get("firstlight.cluster.openpgp_key", loader=DataLoader())
    found: list[str] = plugin.run([str(path)], variables={})
    return found[0]


def test_both_forms_are_one_key(tmp_path: Path) -> None:
    armored = KEY.read_text(encoding="ascii")
    binary = tmp_path / "key.gpg"
    binary.write_bytes(base64.b64decode("".join(armored.partition("\n\n")[2].partition("\n=")[0].splitlines())))
    assert look_up(KEY) == armored
    assert look_up(binary).split() == armored.split()


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "key.gpg"
    page.write_text("<html>404</html>")
    with pytest.raises(AnsibleLookupError, match=r"key\.gpg cannot be used: the key is damaged"):
        look_up(page)
    with pytest.raises(AnsibleLookupError, match="absent is not there, expected a public key"):
        look_up(tmp_path / "absent")
