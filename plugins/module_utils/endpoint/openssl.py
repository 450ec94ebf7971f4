# SPDX-License-Identifier: Apache-2.0
"""Create and read certificates with the openssl program; keys pass through files that only root can read."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Sequence

from ..host import Host
from .certificate_text import SHOW_ARGUMENTS, Certificate, parse_certificate, request_settings

AUTHORITY_DAYS = 3650


class CertificateError(Exception):
    """Why there is no certificate, for the operator; the message never includes a key."""


def openssl(host: Host, *arguments: str, stdin: str | None = None) -> str:
    """Run openssl and return its output. Raises CertificateError."""
    result = host.run(["openssl", *arguments], stdin=stdin)
    if not result.ok:
        raise CertificateError(f"{result.summary}: see `openssl {arguments[0]}` on the host")
    return result.stdout


def show(host: Host, pem: str) -> Certificate:
    """Parse the first certificate in a PEM text. Raises CertificateError."""
    try:
        return parse_certificate(openssl(host, "x509", *SHOW_ARGUMENTS, stdin=pem))
    except ValueError as error:
        raise CertificateError(str(error)) from error


def public_of_certificate(host: Host, pem: str) -> str:
    """Return the public key of the first certificate in a PEM text."""
    return openssl(host, "x509", "-noout", "-pubkey", stdin=pem)


def public_of_key(host: Host, pem: str) -> str:
    """Return the public half of the first private key in a PEM text."""
    return openssl(host, "pkey", "-pubout", stdin=pem)


def is_issued_by(host: Host, pem: str, authority: str) -> bool:
    """Whether the certificate was signed by this authority, even if it has expired."""
    with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
        ca = _write(scratch, "ca.crt", authority)
        return host.run(["openssl", "verify", "-no_check_time", "-CAfile", ca, "-partial_chain"], stdin=pem).ok


def make_authority(host: Host, name: str) -> tuple[str, str]:
    """Create a new authority and return its certificate and key."""
    with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
        settings = _write(scratch, "settings", request_settings(name, [], authority=True))
        key, crt = os.path.join(scratch, "key"), os.path.join(scratch, "crt")
        openssl(
            host, "req", "-x509", *_new_key(settings, key), "-days", str(AUTHORITY_DAYS), "-set_serial", _serial(),
            "-out", crt,
        )  # fmt: skip
        return _read(crt), _read(key)


def make_certificate(
    host: Host, authority: tuple[str, str], common_name: str, names: Sequence[str], days: int
) -> tuple[str, str]:
    """Issue a certificate for these names, signed by the authority (certificate, key); return certificate and key."""
    with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
        settings = _write(scratch, "settings", request_settings(common_name, names, authority=False))
        ca, ca_key = _write(scratch, "ca.crt", authority[0]), _write(scratch, "ca.key", authority[1])
        key, csr, crt = (os.path.join(scratch, name) for name in ("key", "csr", "crt"))
        openssl(host, "req", "-new", *_new_key(settings, key), "-out", csr)
        openssl(
            host, "x509", "-req", "-in", csr, "-CA", ca, "-CAkey", ca_key, "-set_serial", _serial(), "-sha256",
            "-days", str(days), "-extfile", settings, "-extensions", "extensions", "-out", crt,
        )  # fmt: skip
        return _read(crt), _read(key)


def _new_key(settings: str, key: str) -> list[str]:
    return ["-config", settings, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key]


def _serial() -> str:
    return f"0x{secrets.token_hex(16)}"


def _write(directory: str, name: str, text: str) -> str:
    path = os.path.join(directory, name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    return path


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()
