# SPDX-License-Identifier: Apache-2.0
"""The certificate files: issued by the cluster's own authority, or supplied by the operator."""

from __future__ import annotations

import datetime
import os
import socket
from typing import Any

from ..durable import write_durable
from ..host import Host
from .certificate_text import Certificate, days_left, reasons_to_refuse, reasons_to_renew
from .endpoint import CA_CERTIFICATE_PATH, CA_KEY_PATH, PENDING_PATH, SERVER_CERTIFICATE_PATH, SERVER_PEM_PATH
from .openssl import (
    CertificateError,
    is_issued_by,
    make_authority,
    make_certificate,
    public_of_certificate,
    public_of_key,
    show,
)

PRIVATE = 0o600
PUBLIC = 0o644


class Files:
    """The files of the endpoint's certificate below a directory."""

    def __init__(self, host: Host, directory: str, check_mode: bool) -> None:
        self._host, self._directory, self._check_mode = host, directory, check_mode
        self.reasons: list[str] = []

    def read(self, path: str) -> str:
        return self._host.read_text(self._place(path)) or ""

    def keep(self, path: str, content: str, mode: int, reason: str) -> None:
        """Write the file if its content or mode differs, and record the reason."""
        place = self._place(path)
        state = self._host.file_state(place)
        if state["exists"] and self.read(path) == content and state["mode"] == format(mode, "04o"):
            return
        if reason not in self.reasons:
            self.reasons.append(reason)
        if not self._check_mode:
            write_durable(self._place(PENDING_PATH), "", PRIVATE)
            write_durable(place, content, mode)

    def _place(self, path: str) -> str:
        return os.path.join(self._directory, os.path.basename(path))


def converge(host: Host, parameters: dict[str, Any], check_mode: bool, now: datetime.datetime) -> dict[str, Any]:
    """Keep the certificate, issue a new one, or install the given one. Raises CertificateError."""
    files = Files(host, parameters["directory"], check_mode)
    if check_mode and not host.has("openssl"):
        return {
            "changed": True,
            "reasons": ["openssl is not installed yet"],
            "own": not parameters["certificate"],
            "not_after": "",
            "days_left": 0,
            "names": [],
        }
    given = bool(parameters["certificate"] or parameters["key"])
    found = _given(host, files, parameters, now) if given else _own(host, files, parameters, now)
    return {
        "changed": bool(files.reasons),
        "reasons": files.reasons,
        "own": not given,
        "not_after": found.not_after.isoformat() if found else "",
        "days_left": days_left(found, now) if found else 0,
        "names": list(found.names) if found else [],
    }


def _given(host: Host, files: Files, parameters: dict[str, Any], now: datetime.datetime) -> Certificate:
    certificate, key = parameters["certificate"], parameters["key"]
    if not certificate or not key:
        raise CertificateError(
            "only one of endpoint_certificate and endpoint_certificate_key is given, expected both: give the other, too"
        )
    if "ENCRYPTED" in key:
        raise CertificateError(
            "the key of endpoint_certificate_key has a password, expected one without: decrypt it with `openssl pkey`"
        )
    found = show(host, certificate)
    refused = reasons_to_refuse(found, parameters["required_names"], now)
    if public_of_certificate(host, certificate) != public_of_key(host, key):
        refused.append("its key does not match it")
    if refused:
        raise CertificateError(
            f"the certificate of endpoint_certificate cannot be used: {'; '.join(refused)}: give another one, or "
            "none to have one generated"
        )
    _put(files, certificate, key, "the given certificate changed, or is not in place")
    return found


def _own(host: Host, files: Files, parameters: dict[str, Any], now: datetime.datetime) -> Certificate | None:
    names = parameters["names"]
    if parameters["renew_days"] >= parameters["days"]:
        raise CertificateError(
            f"endpoint_renew_days is {parameters['renew_days']} and endpoint_certificate_days {parameters['days']}, "
            "expected fewer: else every run would issue a certificate"
        )
    authority = files.read(CA_CERTIFICATE_PATH), files.read(CA_KEY_PATH)
    reason = _authority_fault(host, *authority)
    if reason:
        # An authority without its key can sign nothing, and clients need to learn the new one. The certificate is
        # written first: a run interrupted between the two leaves a certificate without a matching key, which the next
        # run detects.
        authority = make_authority(host, f"Firstlight authority of {socket.gethostname()}")
        files.keep(CA_CERTIFICATE_PATH, authority[0], PUBLIC, reason)
        files.keep(CA_KEY_PATH, authority[1], PRIVATE, reason)
    else:
        files.keep(CA_KEY_PATH, authority[1], PRIVATE, "the mode of the authority's key differed")
        files.keep(CA_CERTIFICATE_PATH, authority[0], PUBLIC, "the mode of the authority differed")
    pem = files.read(SERVER_PEM_PATH)
    found, reasons = _evaluate(host, pem, authority[0], parameters, now)
    if not reasons:
        certificate, key = split(pem)
        _put(files, certificate, key, "the files' modes, or the public copy, differed")
        return found
    # Clients reject a certificate that outlives its authority, with an obscure message.
    left = days_left(show(host, authority[0]), now)
    if left <= parameters["renew_days"]:
        raise CertificateError(
            f"the authority in {CA_CERTIFICATE_PATH} expires in {left} days, expected more than "
            f"{parameters['renew_days']}: move it and {CA_KEY_PATH} away to have a new one generated, and run again; "
            "clients need the new ca.crt then"
        )
    certificate, key = make_certificate(host, authority, names[0][:64], names, min(parameters["days"], left))
    _put(files, certificate, key, "; ".join(reasons))
    return show(host, certificate)


def _authority_fault(host: Host, certificate: str, key: str) -> str:
    """Return why the authority cannot sign; empty if it can."""
    if not certificate:
        return "there is no authority"
    if not key:
        return "the authority's key is gone"
    return (
        ""
        if public_of_certificate(host, certificate) == public_of_key(host, key)
        else "the authority's key does not match it"
    )


def _evaluate(
    host: Host, pem: str, authority: str, parameters: dict[str, Any], now: datetime.datetime
) -> tuple[Certificate | None, list[str]]:
    """Return the installed certificate, and why it has to be replaced."""
    if not pem:
        return None, ["there is no certificate"]
    try:
        found = show(host, pem)
        if public_of_certificate(host, pem) != public_of_key(host, pem):
            return found, ["its key does not match it"]
    except CertificateError:
        return None, ["the certificate in place cannot be read"]
    if not is_issued_by(host, pem, authority):
        return found, ["it was not issued by this authority"]
    return found, reasons_to_renew(found, parameters["names"], now, parameters["renew_days"])


def _put(files: Files, certificate: str, key: str, reason: str) -> None:
    """Write certificate and key into one file, so that nginx never finds one without the other."""
    files.keep(SERVER_PEM_PATH, join(certificate, key), PRIVATE, reason)
    files.keep(SERVER_CERTIFICATE_PATH, join(certificate, ""), PUBLIC, reason)


def join(certificate: str, key: str) -> str:
    """Return key and certificates as one text."""
    return "".join(f"{part.strip()}\n" for part in (key, certificate) if part.strip())


def split(pem: str) -> tuple[str, str]:
    """Split such a text into certificates and key."""
    marker = "-----BEGIN CERTIFICATE-----"
    key, _, rest = pem.partition(marker)
    return marker + rest, key
