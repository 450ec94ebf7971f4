# SPDX-License-Identifier: Apache-2.0
"""A host is reached as a playbook would reach it: by the variables of the inventory, and without a secret in sight."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.reading import Source

from firstlight.connection import Connection, is_true, read_answer, read_become_password
from firstlight.errors import UsageError
from tests.unit.fake_ssh import GONE, words_of, write_ssh

OBSERVE = "observe.observation.observe_host"
NOTHING: dict[str, Any] = {"desired_by_role": {}}


def source(**variables: Any) -> Source:
    """A host with these variables."""
    known: Mapping[str, Any] = {"inventory_hostname": "spark0", **variables}
    return Source("spark0", ["cluster"], known, known.__getitem__)


@pytest.fixture
def ssh(tmp_path: Path) -> Path:
    return write_ssh(tmp_path)


@pytest.mark.slow  # a start of Python
def test_the_variables_of_the_inventory_say_how(ssh: Path) -> None:
    variables = {
        "ansible_host": "192.0.2.7",
        "ansible_port": 2222,
        "ansible_user": "nvidia",
        "ansible_ssh_private_key_file": "/keys/own",
        "ansible_ssh_common_args": "-J jump@192.0.2.1",
        "ansible_ssh_executable": str(ssh),
        "ansible_become": False,
    }
    found = Connection(source(**variables)).ask(OBSERVE, NOTHING)
    assert "facts" in found["answer"]
    words = words_of(ssh)
    assert {"Port=2222", 'User="nvidia"', 'IdentityFile="/keys/own"', "-J", "jump@192.0.2.1", "192.0.2.7"} <= set(words)
    assert not any("StrictHostKeyChecking=no" in word for word in words)


@pytest.mark.slow  # a start of Python
def test_sudo_gets_its_password_through_standard_input(ssh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sudo = ssh.with_name("sudo")
    sudo.write_text(
        "#!/bin/sh\nfor word; do case $word in *sudo*via*ansible*) printf '%s' \"${word#-p }\" >&2 ;; esac; done\n"
        'read -r secret; [ "$secret" = "s3cret" ] || { echo "Sorry, try again." >&2; exit 1; }\n'
        'while [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n',
        encoding="utf-8",
    )
    sudo.chmod(0o755)
    variables = {"ansible_ssh_executable": str(ssh), "ansible_become_exe": str(sudo), "ansible_user": "nvidia"}
    found = Connection(source(**variables), "s3cret").ask(OBSERVE, NOTHING)
    assert "facts" in found["answer"]
    assert str(sudo) in "\n".join(words_of(ssh))
    assert "s3cret" not in "\n".join(words_of(ssh))


def test_root_needs_no_sudo(ssh: Path) -> None:
    made = Connection(source(ansible_ssh_executable=str(ssh), ansible_user="root"))
    assert made._plugin.become is None


@pytest.mark.slow  # a start of ssh
def test_a_host_that_does_not_answer_is_told_in_ssh_s_own_words(ssh: Path) -> None:
    variables = {"ansible_ssh_executable": str(ssh), "ansible_become": False, "ansible_host": GONE}
    found = Connection(source(**variables)).ask(OBSERVE, NOTHING)
    assert found["unreachable"]
    assert found["problem"].endswith(f"ssh: connect to host {GONE} port 22: Connection refused")


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"ansible_connection": "winrm"}, "ansible_connection winrm"),
        ({"ansible_connection": "no.such.kind"}, "ansible_connection no.such.kind"),
        ({"ansible_become_method": "no_such_way"}, "ansible_become_method no_such_way"),
    ],
)
def test_what_cannot_be_done_so_names_the_playbook(variables: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=r"run ansible-playbook playbooks/verify\.yml") as raised:
        Connection(source(**variables))
    assert told in str(raised.value)


def test_only_the_last_line_is_the_answer() -> None:
    assert read_answer(0, b'Welcome!\n{"answer": 1}\n', b"") == {"answer": 1}
    assert read_answer(127, b"", b"sh: python3: not found\n")["problem"].endswith(
        "(status 127): sh: python3: not found"
    )
    assert "no output" in read_answer(1, b"", b"")["problem"]
    assert "Welcome" in read_answer(0, b"Welcome!\n", b"")["problem"]


def test_variables_in_any_words(tmp_path: Path) -> None:
    assert is_true(source(x="yes"), "x")
    assert not is_true(source(x="no"), "x")
    assert not is_true(source(), "x")
    (tmp_path / "secret").write_text("pass word\n")
    assert read_become_password([str(tmp_path / "secret")]) == "pass word"
    assert read_become_password([]) is None
