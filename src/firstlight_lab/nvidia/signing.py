# SPDX-License-Identifier: Apache-2.0
"""The lab's own signing key, kept in the cache and used for nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..shell import LabError

USER = "Firstlight lab apt repository <lab@firstlight.invalid>"


class SigningError(LabError):
    """The repository could not be signed; the message says what to do."""


@contextmanager
def keyring(home: Path) -> Iterator[Keyring]:
    """Yield a key ring in `home` that contains a key. The agent started by gpg is stopped when the context exits.

    gpg puts its sockets beside the ring, and a socket's path is limited to about 100 characters, while a cache may be
    nested deeply: the ring is therefore used through a short link.
    """
    if shutil.which("gpg") is None:
        raise SigningError(
            "gpg was not found on this machine, but the lab signs its apt repository with it. "
            "Install the Debian or Ubuntu package gnupg (apt-get install gnupg) and run this again."
        )
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    with tempfile.TemporaryDirectory(prefix="fl-gpg-") as short:
        link = Path(short) / "home"
        link.symlink_to(home.resolve(), target_is_directory=True)
        ring = Keyring(link)
        try:
            ring.ensure_key()
            yield ring
        finally:
            subprocess.run(["gpgconf", "--homedir", str(link), "--kill", "all"], check=False, capture_output=True)


class Keyring:
    """gpg with one home directory and one key."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def ensure_key(self) -> None:
        """Generate the key on first use."""
        if b"\nsec:" in b"\n" + self._gpg(["--with-colons", "--list-secret-keys"]):
            return
        self._gpg(["--passphrase", "", "--quick-generate-key", USER, "ed25519", "sign", "never"])

    def public_key(self) -> bytes:
        """The public key in the form that apt's signed-by takes (a .asc file)."""
        return self._gpg(["--armor", "--export", USER])

    def binary_key(self) -> bytes:
        """The public key in binary form (a .gpg file), which most repositories publish as well."""
        return self._gpg(["--export", USER])

    def clear_sign(self, text: bytes) -> bytes:
        """Return InRelease: the text with its inline signature."""
        return self._gpg(["--armor", "--digest-algo", "SHA256", "--clear-sign"], text)

    def detach_sign(self, text: bytes) -> bytes:
        """Return Release.gpg: the detached signature."""
        return self._gpg(["--armor", "--digest-algo", "SHA256", "--detach-sign"], text)

    def _gpg(self, arguments: Sequence[str], text: bytes = b"") -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--yes", "--quiet", "--no-tty", *arguments]
        environment = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(command, input=text, capture_output=True, check=False, timeout=120, env=environment)
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
            raise SigningError(
                f"gpg failed with the key ring {self.home.resolve()}: {reason}. "
                "Remove that directory to create a new key, and run this again."
            )
        return done.stdout
