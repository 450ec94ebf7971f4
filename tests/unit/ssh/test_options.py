# SPDX-License-Identifier: Apache-2.0
"""Secrets and choices: where they come from, and what is refused."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import paramiko
import pytest

from firstlight.errors import FirstlightError
from firstlight.ssh.arguments import add_ssh_options
from firstlight.ssh.host_keys import HostKey
from firstlight.ssh.options import confirm, public_key, read_password, refuse_missing_private
from firstlight.ssh.session import Credentials
from firstlight.ssh.targets import Target
from firstlight.ssh.trust import Trust

KEY = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIAwmaaOl67Yg/OYERrXT123KZvVJM4RdhTNZ5+qMDrgA")
TARGETS = [Target("spark0", "10.0.0.5"), Target("spark1", "10.0.0.6")]


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_ssh_options(parser, inventory=False)
    return parser.parse_args(words)


def descriptor(content: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return reading


def test_no_option_takes_a_password() -> None:
    with pytest.raises(SystemExit):
        parsed("--password", "secret")


@pytest.mark.parametrize(("content", "expected"), [(b"secret word\nnext\n", "secret word"), (b"secret", "secret")])
def test_one_line_of_a_descriptor(content: bytes, expected: str) -> None:
    assert read_password(parsed("--password-fd", str(descriptor(content)))) == expected


@pytest.mark.parametrize("content", [b"", b"\n", b"a\tb\n", b"\xff\xfe\n"])
def test_what_is_no_password_is_refused_and_not_shown(content: bytes) -> None:
    with pytest.raises(FirstlightError, match="expected one line"):
        read_password(parsed("--password-fd", str(descriptor(content))))


def test_a_descriptor_that_is_not_open() -> None:
    with pytest.raises(FirstlightError, match="file descriptor 999 gives no password"):
        read_password(parsed("--password-fd", "999"))


def test_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getpass", lambda _: "typed")
    assert read_password(parsed("--ask-password")) == "typed"
    assert read_password(parsed()) is None


def test_what_is_no_public_key_file(tmp_path: Path) -> None:
    for name in ("missing.pub", "id_ed25519"):
        with pytest.raises(FirstlightError, match=r"ends in \.pub"):
            public_key(parsed("--key", str(tmp_path / name)))


def test_the_private_half_must_be_here() -> None:
    key = paramiko.ECDSAKey.generate()
    line = f"{key.get_name()} {key.get_base64()} operator"
    refuse_missing_private(Credentials("operator", [key]), line)
    with pytest.raises(FirstlightError, match="operator's private key"):
        refuse_missing_private(Credentials("operator", []), line)


def test_a_yes_is_for_exactly_the_key_that_was_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["yes", ""])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    trust = Trust(tmp_path / "known_hosts")
    confirm(trust, dict.fromkeys(TARGETS, KEY), 22, lambda _: next(answers))
    assert trust.listed == {"spark0": KEY.fingerprint}
    assert capsys.readouterr().err.count(KEY.fingerprint) == 2


def test_without_a_terminal_nobody_is_asked(tmp_path: Path) -> None:
    trust = Trust(tmp_path / "known_hosts")
    confirm(trust, dict.fromkeys(TARGETS, KEY), 22, lambda _: "yes")
    assert trust.listed == {}
