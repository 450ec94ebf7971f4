# SPDX-License-Identifier: Apache-2.0
"""What is done on a host: the scripts are run, as far as this machine's own files stay out of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from firstlight.bootstrap.script import (
    Wanted,
    check_wanted,
    evaluate_failure,
    key_script,
    password_login_script,
    read_steps,
    root_script,
)
from firstlight.errors import FirstlightError

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIAwmaaOl67Yg/OYERrXT123KZvVJM4RdhTNZ5+qMDrgA"
KEY = f"ssh-ed25519 {BLOB} operator's own; $(touch /nowhere)"
WANTED = Wanted("operator", KEY)


def run(script: str, home: Path, shell: str = "sh") -> tuple[dict[str, str], str, int]:
    done = subprocess.run(
        [shell, "-c", script], env={**os.environ, "HOME": str(home)}, capture_output=True, text=True, check=False
    )
    return read_steps(done.stdout)[0], done.stderr, done.returncode


@pytest.mark.parametrize("before", [None, "ssh-rsa AAAAother old\n", "ssh-rsa AAAAother without-an-end"])
def test_the_key_is_added_once_and_nothing_is_lost(tmp_path: Path, before: str | None) -> None:
    file = tmp_path / ".ssh" / "authorized_keys"
    if before is not None:
        file.parent.mkdir()
        file.write_text(before)
    check = run(key_script(replace(WANTED, check=True)), tmp_path)
    assert check == ({"key": "would change"}, "", 0)
    assert (file.read_text() if file.exists() else None) == before
    assert run(key_script(WANTED), tmp_path) == ({"key": "changed"}, "", 0)
    assert file.read_text().splitlines() == [*(before or "").splitlines(), KEY]
    assert file.stat().st_mode & 0o777 == 0o600
    assert run(key_script(WANTED), tmp_path) == ({"key": "ok"}, "", 0)
    assert [path.name for path in file.parent.iterdir()] == ["authorized_keys"]


def test_a_key_with_restrictions_is_not_taken_for_the_operators(tmp_path: Path) -> None:
    file = tmp_path / ".ssh" / "authorized_keys"
    file.parent.mkdir()
    file.write_text(f'command="true" {KEY}\n')
    assert run(key_script(WANTED), tmp_path)[0] == {"key": "changed"}


def test_a_full_disk_is_told_and_costs_no_file(tmp_path: Path) -> None:
    """/dev/full is what a full disk says, in the place of the new file."""
    ssh = tmp_path / ".ssh"
    ssh.mkdir()
    (ssh / "authorized_keys").write_text("ssh-rsa AAAAother old\n")
    (ssh / "authorized_keys.firstlight.new").symlink_to("/dev/full")
    steps, said, status = run(key_script(WANTED), tmp_path)
    assert (steps, status != 0) == ({}, True)
    assert evaluate_failure("key", said).kind == "full-disk"
    assert (ssh / "authorized_keys").read_text() == "ssh-rsa AAAAother old\n"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_scripts_are_good_shell(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell):
        for script in (key_script(WANTED), root_script(WANTED, "spark0"), password_login_script(WANTED)):
            subprocess.run([shell, "-n", "-c", script], check=True)


@pytest.mark.hostile
def test_two_accounts_never_share_a_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root there is, with a directory in the place of /etc/sudoers.d."""
    for program in ("visudo", "python3"):
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    rules = tmp_path / "sudoers.d"
    rules.mkdir()

    def sudo(user: str, how: str) -> str:
        script = root_script(replace(WANTED, user=user, sudo=how), None)
        return run(script.replace("/etc/sudoers.d", str(rules)), tmp_path)[0]["sudo"]

    assert [sudo(user, "nopasswd") for user in ("a.b", "a_b", "a-b")] == ["changed"] * 3
    assert sudo("a.b", "nopasswd") == "ok"
    assert sudo("a.b", "password") == "changed"
    assert sorted(path.read_text().split()[0] for path in rules.iterdir()) == ["a-b", "a_b"]
    assert not [path.name for path in rules.iterdir() if "." in path.name]


def test_names_cannot_leave_their_quotes() -> None:
    script = root_script(replace(WANTED, user="operator"), "a'; reboot; '")
    assert """name='a'"'"'; reboot; '"'"''""" in script


def test_a_node_keeps_its_name_where_that_is_wanted() -> None:
    assert "name=''" in root_script(replace(WANTED, hostnames=False), "spark0")
    assert "name=''" in root_script(WANTED, None)


@pytest.mark.parametrize("user", ["", "Operator", "a b", "root;reboot", "../x"])
def test_a_user_that_no_system_has_is_refused(user: str) -> None:
    with pytest.raises(FirstlightError, match="expected the name of an account"):
        check_wanted(replace(WANTED, user=user))


@pytest.mark.parametrize("key", ["", "ssh-ed25519", f"{KEY}\n{KEY}", "-----BEGIN OPENSSH PRIVATE KEY-----"])
def test_what_is_no_public_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(FirstlightError, match="public key is not one line") as refused:
        check_wanted(replace(WANTED, public_key=key))
    assert "BEGIN" not in str(refused.value)


def test_the_step_that_was_begun_last_is_the_one_that_failed() -> None:
    steps, begun = read_steps("@ sudo begin\n@ sudo changed\nnoise\n@ password login begin\n")
    assert (steps, begun) == ({"sudo": "changed"}, "password login")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("cat: write error: No space left on device", "full-disk"),
        ("sh: 12: cannot create /etc/x: Disk quota exceeded", "full-disk"),
        ("E: Unable to locate package python3", "step-failed"),
        ("", "step-failed"),
    ],
)
def test_failures_by_what_was_said(said: str, kind: str) -> None:
    assert evaluate_failure("python", said).kind == kind
