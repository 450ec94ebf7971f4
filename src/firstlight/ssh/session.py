# SPDX-License-Identifier: Apache-2.0
"""One SSH connection. The key exchange is a separate first step, so that the host key is verified before the login."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko

from firstlight.errors import UsageError

from .faults import LostError, NodeError, no_login, no_password, no_sudo, sudo_password, unreachable, wrong_password
from .host_keys import HostKey

CONNECT_SECONDS = 8.0
SILENT_SECONDS = 15
"""Time without acknowledgement after which a peer is given up; a node that lost power does not close the connection."""
MOST_OUTPUT = 4 << 20
MOST_KEYS = 4
"""Maximum number of keys to try: an agent may hold many, and a host disconnects after six attempts."""
_BROKEN = (EOFError, OSError, paramiko.SSHException, ValueError, LookupError, struct.error)
"""What Paramiko raises when a connection breaks or a peer violates the protocol."""
logging.getLogger("paramiko").addHandler(logging.NullHandler())  # it prints tracebacks for peers that we report on
_SUDO_PASSWORD = ("a password is required", "incorrect password", "Sorry, try again", "no password was provided")


@dataclass(frozen=True)
class Credentials:
    """The user to log in as, with keys and password. The password is kept in memory only and out of every repr."""

    user: str
    keys: Sequence[paramiko.PKey] = ()
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Answer:
    """The exit status and output of a command."""

    status: int
    out: str
    err: str


def read_keys(path: Path | None) -> list[paramiko.PKey]:
    """Load the agent's keys, and the operator's private key if it needs no passphrase."""
    keys: list[paramiko.PKey] = []
    if path is not None and path.is_file():
        with contextlib.suppress(paramiko.PasswordRequiredException):
            try:
                keys.append(paramiko.PKey.from_path(path))
            except (paramiko.SSHException, ValueError, TypeError) as error:
                if "passphrase" not in str(error).lower() and "encrypted" not in str(error).lower():
                    raise UsageError(
                        f"{path} is not a readable private key ({error}); expected one made by ssh-keygen."
                    ) from None
    with contextlib.suppress(paramiko.SSHException, OSError):
        keys += paramiko.Agent().get_keys()
    return keys


class Session:
    """A connection whose host key is known; unauthenticated until `log_in`."""

    def __init__(self, transport: paramiko.Transport, port: int) -> None:
        self._transport = transport
        self.port = port
        self.user = ""
        self._password: str | None = None
        shown = transport.get_remote_server_key()
        self.host_key = HostKey(shown.get_name(), shown.get_base64())

    @classmethod
    def open(cls, address: str, port: int, kinds: Sequence[str] = (), timeout: float = CONNECT_SECONDS) -> Session:
        """Exchange keys without logging in. `kinds` are the types of the pinned keys, one of which the host should
        present.
        """
        try:
            raw = socket.create_connection((address, port), timeout=timeout)
        except OSError as error:
            raise NodeError(unreachable(address, port, _why(error))) from None
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_SECONDS * 1000)
        transport: paramiko.Transport | None = None
        try:
            transport = paramiko.Transport(raw)
            options = transport.get_security_options()
            wanted = [kind for kind in options.key_types if _family(kind) in {_family(one) for one in kinds}]
            if wanted:
                options.key_types = wanted
            transport.banner_timeout = transport.auth_timeout = timeout
            transport.start_client(timeout=timeout)
            return cls(transport, port)
        except _BROKEN as error:
            if transport is not None:
                transport.close()
            raw.close()
            raise NodeError(unreachable(address, port, _why(error))) from None

    def log_in(self, credentials: Credentials) -> str:
        """Log in with the operator's key or, if it is not accepted, try the password once; return which one worked."""
        self.user = credentials.user
        self._password = credentials.password
        try:
            for key in credentials.keys[:MOST_KEYS]:
                with contextlib.suppress(paramiko.AuthenticationException):
                    self._transport.auth_publickey(credentials.user, key)
                    return "key"
            if credentials.password is None:
                raise NodeError(no_password(credentials.user))
            self._transport.auth_password(credentials.user, credentials.password)
        except paramiko.BadAuthenticationType as error:
            raise NodeError(no_login(credentials.user, ", ".join(error.allowed_types))) from None
        except paramiko.AuthenticationException:
            raise NodeError(wrong_password(credentials.user)) from None
        except _BROKEN as error:
            raise LostError(_why(error)) from None
        return "password"

    def run(self, script: str, *, stdin: str = "", timeout: float = 60.0, wrap: Sequence[str] = ()) -> Answer:
        """Run a shell script on the host. It must not contain a secret, because the host's process list shows it."""
        command = shlex.join([*wrap, "sh", "-c", script])
        # A host may accept a command and never confirm it or send its exit status: Paramiko would wait forever.
        limit = threading.Timer(timeout + CONNECT_SECONDS, self._transport.close)
        limit.daemon = True
        limit.start()
        try:
            channel = self._transport.open_session(timeout=CONNECT_SECONDS)
            with contextlib.closing(channel):
                self._transport.set_keepalive(5)
                channel.settimeout(timeout)
                channel.exec_command(command)
                channel.sendall(stdin.encode())
                channel.shutdown_write()
                out, err = _read(channel.recv, timeout), _read(channel.recv_stderr, timeout)
                status = channel.recv_exit_status()
        except _BROKEN as error:
            raise LostError(_why(error)) from None
        finally:
            limit.cancel()
        if status == -1:
            raise LostError("the connection was closed")
        return Answer(status, out, err)

    def run_as_root(self, script: str, timeout: float = 60.0) -> Answer:
        """Run a script as root. The password is sent through standard input, and only if sudo asks for one."""
        if self.user == "root":
            return self.run(script, timeout=timeout)
        asked = self.run("LC_ALL=C sudo -n true")
        if asked.status == 0:
            return self.run(script, timeout=timeout, wrap=["sudo", "-n"])
        if asked.status == 127:
            raise NodeError(no_sudo(self.user, "sudo is not installed"))
        if self._password is None:
            raise NodeError(sudo_password(self.user))
        # Try sudo first, to distinguish its refusal from a failure of the script. -k: with cached credentials, sudo
        # would leave the password unread in the script's standard input.
        words = ["env", "LC_ALL=C", "sudo", "-k", "-S", "-p", ""]
        tried = self.run("true", stdin=self._password + "\n", wrap=words)
        if tried.status != 0:
            said = _last(tried.err)
            if any(text in tried.err for text in _SUDO_PASSWORD):
                raise NodeError(sudo_password(self.user))
            raise NodeError(no_sudo(self.user, said))
        return self.run(script, stdin=self._password + "\n", timeout=timeout, wrap=words)

    def close(self) -> None:
        self._transport.close()


def _read(receive: Any, timeout: float) -> str:
    """Read a stream to its end, with limits on time and size."""
    deadline = time.monotonic() + timeout
    parts: list[bytes] = []
    size = 0
    while part := receive(65536):
        parts.append(part)
        size += len(part)
        if size > MOST_OUTPUT or time.monotonic() > deadline:
            raise OSError(f"it printed {size} bytes in {timeout:.0f} s and did not end")
    return b"".join(parts).decode("utf-8", "replace")


@contextlib.contextmanager
def closing(session: Session) -> Iterator[Session]:
    """Yield the session, and close it at the end."""
    try:
        yield session
    finally:
        session.close()


def _family(kind: str) -> str:
    """Map RSA signature algorithms to their common key type."""
    return "ssh-rsa" if kind.startswith("rsa-sha2") else kind


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return " ".join(str(error).split())[:200] or type(error).__name__
