# SPDX-License-Identifier: Apache-2.0
"""Logging in, against a small SSH server on this machine that notes what it was sent."""

from __future__ import annotations

import contextlib
import shlex
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
import pytest
from paramiko import common

from firstlight.ssh import session as ssh_session
from firstlight.ssh.faults import LostError, NodeError
from firstlight.ssh.session import Credentials, Session, closing, read_keys
from firstlight.ssh.targets import Target
from firstlight.ssh.trust import Trust

OPERATOR = paramiko.ECDSAKey.generate()
TARGET = Target("spark0", "127.0.0.1")
SECRET = "correct horse"
SILENT = -2
"""The status of a command that ends without one."""


@dataclass
class Host(paramiko.ServerInterface):
    """A host with one account; `commands` answers by the first words of a command."""

    takes_key: bool = False
    takes_password: bool = True
    commands: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    passwords: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    read: list[bytes] = field(default_factory=list)
    let_go: threading.Event | None = None
    """A command is answered only then."""

    def get_allowed_auths(self, username: str) -> str:
        return "password,publickey" if self.takes_password else "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return common.AUTH_SUCCESSFUL if self.takes_key and key == OPERATOR else common.AUTH_FAILED

    def check_auth_password(self, username: str, password: str) -> int:
        self.passwords.append(password)
        good = self.takes_password and password == SECRET
        return common.AUTH_SUCCESSFUL if good else common.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        if self.let_go is not None:
            self.let_go.wait(10)
        threading.Thread(target=self._answer, args=(channel, command.decode()), daemon=True).start()
        return True

    def _answer(self, channel: paramiko.Channel, command: str) -> None:
        self.ran.append(command)
        taken = b""
        while part := channel.recv(1024):
            taken += part
        self.read.append(taken)
        status, out, err = next((said for words, said in self.commands.items() if words in command), (0, "", ""))
        if status == SILENT:
            channel.shutdown_write()
            return
        if status < 0:
            channel.get_transport().close()
            return
        channel.sendall(out.encode())
        channel.sendall_stderr(err.encode())
        channel.send_exit_status(status)
        # The end of the output and the end of the channel are two messages: a client may hang up after the first.
        with contextlib.suppress(EOFError):
            channel.close()


@dataclass
class Served:
    """Where the host listens."""

    host: Host
    port: int
    key: paramiko.PKey


@pytest.fixture
def served() -> Iterator[Served]:
    host, key = Host(), paramiko.ECDSAKey.generate()
    transports: list[paramiko.Transport] = []
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            while True:
                try:
                    plug, _ = door.accept()
                except OSError:
                    return
                transport = paramiko.Transport(plug)
                transports.append(transport)
                transport.add_server_key(key)
                transport.start_server(event=threading.Event(), server=host)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Served(host, door.getsockname()[1], key)
        door.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        for transport in transports:
            transport.close()


def test_the_key_is_tried_before_the_password(served: Served, tmp_path: Path) -> None:
    trust = Trust(tmp_path / "known_hosts", accepted=["spark0"])
    with closing(trust.open(TARGET, served.port)) as session:
        assert session.log_in(Credentials("operator", [OPERATOR], SECRET)) == "password"
    served.host.takes_key = True
    with closing(Trust(tmp_path / "known_hosts").open(TARGET, served.port)) as session:
        assert session.log_in(Credentials("operator", [OPERATOR], SECRET)) == "key"
    assert served.host.passwords == [SECRET]


def test_a_changed_key_ends_it_before_anything_is_sent(served: Served, tmp_path: Path) -> None:
    other = paramiko.ECDSAKey.generate()
    file = tmp_path / "known_hosts"
    file.write_text(f"[127.0.0.1]:{served.port} {other.get_name()} {other.get_base64()}\n")
    before = file.read_text()
    with pytest.raises(NodeError) as refused:
        Trust(file, accepted=["spark0"]).open(TARGET, served.port)
    assert refused.value.fault.kind == "host-key-changed"
    assert (served.host.passwords, served.host.ran, file.read_text()) == ([], [], before)


def test_an_unknown_key_is_not_pinned(served: Served, tmp_path: Path) -> None:
    with pytest.raises(NodeError) as refused:
        Trust(tmp_path / "known_hosts").open(TARGET, served.port)
    assert refused.value.fault.kind == "host-key-unknown"
    assert not (tmp_path / "known_hosts").exists()


def test_a_look_alone_pins_nothing(served: Served, tmp_path: Path) -> None:
    trust = Trust(tmp_path / "known_hosts", accepted=["spark0"], keep=False)
    trust.open(TARGET, served.port).close()
    assert list(trust.new) == ["spark0"]
    assert not (tmp_path / "known_hosts").exists()


@pytest.mark.parametrize(
    ("password", "takes_password", "kind"),
    [("wrong", True, "wrong-password"), (None, True, "no-password"), (SECRET, False, "no-login")],
)
def test_who_cannot_log_in(served: Served, password: str | None, takes_password: bool, kind: str) -> None:
    served.host.takes_password = takes_password
    with closing(Session.open("127.0.0.1", served.port)) as session, pytest.raises(NodeError) as refused:
        session.log_in(Credentials("operator", [OPERATOR], password))
    assert refused.value.fault.kind == kind
    assert len(served.host.passwords) <= 1
    assert SECRET not in refused.value.fault.text


def logged_in(served: Served) -> Session:
    session = Session.open("127.0.0.1", served.port)
    session.log_in(Credentials("operator", [], SECRET))
    return session


def test_a_command_and_its_end(served: Served) -> None:
    served.host.commands = {"echo": (3, "out\n", "err\n")}
    with closing(logged_in(served)) as session:
        answer = session.run("echo 'a b'", stdin="text")
    assert (answer.status, answer.out, answer.err) == (3, "out\n", "err\n")
    assert shlex.split(served.host.ran[0]) == ["sh", "-c", "echo 'a b'"]
    assert served.host.read == [b"text"]


def test_a_connection_that_breaks(served: Served) -> None:
    served.host.commands = {"reboot": (-1, "", "")}
    with closing(logged_in(served)) as session, pytest.raises(LostError):
        session.run("reboot")


@pytest.mark.hostile
def test_a_command_without_a_status_holds_nobody_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_session, "CONNECT_SECONDS", 0.1)
    served.host.commands = {"echo": (SILENT, "", "")}
    with closing(logged_in(served)) as session, pytest.raises(LostError):
        session.run("echo", timeout=0.1)


@pytest.mark.hostile
def test_a_command_that_is_never_taken_holds_nobody_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(logged_in(served)) as session:
        monkeypatch.setattr(ssh_session, "CONNECT_SECONDS", 0.1)
        served.host.let_go = threading.Event()
        try:
            with pytest.raises(LostError):
                session.run("echo", timeout=0.1)
        finally:
            served.host.let_go.set()


@pytest.mark.hostile
def test_an_answer_without_end_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_session, "MOST_OUTPUT", 1000)
    served.host.commands = {"echo": (0, "x" * 5000, "")}
    with closing(logged_in(served)) as session, pytest.raises(LostError, match="did not end"):
        session.run("echo")


def test_sudo_that_asks_for_nothing_gets_no_password(served: Served) -> None:
    with closing(logged_in(served)) as session:
        session.run_as_root("id")
    assert served.host.read == [b"", b""]
    assert shlex.split(served.host.ran[1]) == ["sudo", "-n", "sh", "-c", "id"]


def test_sudo_that_asks_gets_it_through_standard_input(served: Served) -> None:
    served.host.commands = {"sudo -n": (1, "", "sudo: a password is required")}
    with closing(logged_in(served)) as session:
        session.run_as_root("id")
    assert served.host.read == [b"", f"{SECRET}\n".encode(), f"{SECRET}\n".encode()]
    assert all(SECRET not in command for command in served.host.ran)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("operator is not in the sudoers file.", "no-sudo"),
        ("sudo: 1 incorrect password attempt", "sudo-password"),
        ("Sorry, user operator is not allowed to execute '/bin/sh' as root on spark0.", "no-sudo"),
    ],
)
def test_who_may_not_become_root(served: Served, said: str, kind: str) -> None:
    served.host.commands = {"sudo": (1, "", said)}
    with closing(logged_in(served)) as session, pytest.raises(NodeError) as refused:
        session.run_as_root("id")
    assert refused.value.fault.kind == kind


def test_a_host_without_sudo(served: Served) -> None:
    served.host.commands = {"sudo": (127, "", "sh: sudo: not found")}
    with closing(logged_in(served)) as session, pytest.raises(NodeError, match="sudo is not installed"):
        session.run_as_root("id")


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    with pytest.raises(NodeError, match="Connection refused"):
        Session.open("127.0.0.1", port)


def test_somebody_who_is_no_ssh_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:

        def greet() -> None:
            plug, _ = door.accept()
            with plug:
                plug.sendall(b"HTTP/1.1 400\r\n\r\n" * 200)

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        with pytest.raises(NodeError) as refused:
            Session.open("127.0.0.1", door.getsockname()[1], timeout=2)
        thread.join(5)
    assert refused.value.fault.kind == "unreachable"


def test_the_password_is_in_no_text() -> None:
    assert SECRET not in repr(Credentials("operator", [], SECRET))


def test_a_private_key_beside_its_public_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    OPERATOR.write_private_key_file(str(tmp_path / "plain"))
    OPERATOR.write_private_key_file(str(tmp_path / "locked"), password="passphrase")
    assert read_keys(tmp_path / "plain") == [OPERATOR]
    assert read_keys(tmp_path / "locked") == read_keys(tmp_path / "missing") == read_keys(None) == []
