# SPDX-License-Identifier: Apache-2.0
"""Sources of packages with keys from files, in both forms in which repositories publish them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import lookup_loader

KEY = Path(__file__).parents[3] / "fixtures" / "apt" / "key.asc"


def look_up(path: Path) -> str:
    return str(sources({"uris": ["http://a"], "key_file": str(path)})[0]["key"])


def sources(*terms: object) -> list[dict[str, Any]]:
    plugin = lookup_loader.get("firstlight.cluster.apt_source", loader=DataLoader())
    found: list[dict[str, Any]] = plugin.run(list(terms), variables={})
    return found


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


def test_a_source_without_a_key_file_stays_as_it_is() -> None:
    one = {"uris": ["http://a"], "key": "armored"}
    assert sources() == []
    assert sources({}, one) == [{}, one]
    with pytest.raises(AnsibleLookupError, match="A source of packages is 'http://a', expected a mapping"):
        sources("http://a")
