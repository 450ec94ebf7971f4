# SPDX-License-Identifier: Apache-2.0
"""What `firstlight discover` and `firstlight bootstrap` refuse before anybody is contacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstlight.cli import main

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAwmaaOl67Yg/OYERrXT123KZvVJM4RdhTNZ5+qMDrgA operator\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["discover"], "no network was named"),
        (["discover", "10.0.0.5", "--accept", "10.0.0.5"], "expected --inventory DIR"),
        (["discover", "--interface", "nowhere0"], "no interface 'nowhere0'"),
        (["discover", "10.0.0.0/8"], "more than 4096"),
        (["bootstrap", "-i", "."], "no node was named"),
        (["bootstrap", "-i", ".", "a=10.0.0.5", "a=10.0.0.6"], "the name a is listed more than once"),
        (["bootstrap", "-i", ".", "a=10.0.0.5", "--key", "missing.pub"], "missing.pub is not a public key"),
        (["bootstrap", "-i", ".", "a=10.0.0.5", "--key", "key.pub"], "operator's private key"),
        (
            ["bootstrap", "-i", ".", "a=10.0.0.5", "--key", "key.pub", "--user", "a b"],
            "expected the name of an account",
        ),
        (["bootstrap", "-i", ".", "--nodes", "nodes.yml"], "firstlight discover --output"),
    ],
)
def test_errors(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / "key.pub").write_text(KEY)
    (tmp_path / "nodes.yml").write_text("hosts: []\n")
    assert main(words) == 2
    assert said in capsys.readouterr().err
