# SPDX-License-Identifier: Apache-2.0
"""Parse certificates as shown by openssl, render its settings for new ones, and decide when to replace one."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..text import is_address

SHOW_ARGUMENTS = ("-noout", "-issuer", "-startdate", "-enddate", "-ext", "subjectAltName")
"""Arguments of `openssl x509` for output that `parse_certificate` can read."""

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(r"(\w{3})\s+(\d{1,2})\s+(\d\d):(\d\d):(\d\d)\s+(\d{4})\s+GMT")


@dataclass(frozen=True)
class Certificate:
    """The fields parsed from a certificate."""

    issuer: str
    not_before: datetime.datetime
    not_after: datetime.datetime
    names: tuple[str, ...]
    """DNS names and IP addresses, in the order of the certificate."""


def parse_certificate(text: str) -> Certificate:
    """Parse `openssl x509 -noout -issuer -startdate -enddate -ext subjectAltName`. Raises ValueError."""
    values: dict[str, str] = {}
    names: list[str] = []
    for line in text.splitlines():
        field, separator, value = line.strip().partition("=")
        if separator and field in ("issuer", "notBefore", "notAfter"):
            values[field] = value.strip()
        elif line.strip().startswith(("DNS:", "IP Address:")):
            names += [_name(part.strip()) for part in line.split(",")]
    missing = [field for field in ("issuer", "notBefore", "notAfter") if field not in values]
    if missing:
        raise ValueError(f"openssl showed no {' and no '.join(missing)} of the certificate")
    return Certificate(
        values["issuer"], parse_date(values["notBefore"]), parse_date(values["notAfter"]), tuple(filter(None, names))
    )


def parse_date(text: str) -> datetime.datetime:
    """Parse a date as openssl prints it, such as Nov 16 03:03:13 2027 GMT, whatever the locale of this process."""
    found = _DATE.fullmatch(text.strip())
    if not found or found[1] not in _MONTHS:
        raise ValueError(f"openssl wrote the date {text.strip()!r}, expected one such as Nov 16 03:03:13 2027 GMT")
    day, hour, minute, second, year = (int(found[group]) for group in (2, 3, 4, 5, 6))
    month = _MONTHS.index(found[1]) + 1
    return datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.timezone.utc)


def _name(part: str) -> str:
    kind, _, value = part.partition(":")
    if kind == "IP Address":
        try:
            return str(ipaddress.ip_address(value))
        except ValueError:
            return value
    return value.lower() if kind == "DNS" else ""


def days_left(certificate: Certificate, now: datetime.datetime) -> int:
    """Return the whole days until the certificate expires; negative if it has expired."""
    return (certificate.not_after - now).days


def reasons_to_renew(
    certificate: Certificate, names: Sequence[str], now: datetime.datetime, renew_days: int
) -> list[str]:
    """Return why our own certificate has to be reissued; empty if it is valid."""
    reasons = []
    if certificate.not_before > now:
        reasons.append(f"it is valid only from {certificate.not_before:%Y-%m-%d %H:%M}")
    left = days_left(certificate, now)
    if left < renew_days:
        reasons.append(f"it expires in {left} days" if left >= 0 else f"it expired {certificate.not_after:%Y-%m-%d}")
    missing = [name for name in names if name not in certificate.names]
    if missing:
        reasons.append(f"it is not valid for {', '.join(missing)}")
    surplus = [name for name in certificate.names if name not in names]
    if surplus:
        reasons.append(f"it is also valid for {', '.join(surplus)}")
    return reasons


def reasons_to_refuse(certificate: Certificate, names: Iterable[str], now: datetime.datetime) -> list[str]:
    """Return why a certificate given by the operator cannot serve these names; empty if it can."""
    reasons = []
    if certificate.not_after <= now:
        reasons.append(f"it expired {certificate.not_after:%Y-%m-%d}")
    if certificate.not_before > now:
        reasons.append(f"it is valid only from {certificate.not_before:%Y-%m-%d %H:%M}")
    missing = [name for name in names if not covers(certificate, name)]
    if missing:
        reasons.append(f"it is valid for {', '.join(certificate.names) or 'no name'}, not for {', '.join(missing)}")
    return reasons


def covers(certificate: Certificate, name: str) -> bool:
    """Whether a client that connects by this name accepts the certificate."""
    _, _, parent = name.partition(".")
    return name in certificate.names or (bool(parent) and f"*.{parent}" in certificate.names)


def request_settings(common_name: str, names: Sequence[str], *, authority: bool) -> str:
    """Render the configuration for an openssl request; the system's own may add conflicting settings."""
    listed = [
        f"IP.{number} = {name}" if is_address(name) else f"DNS.{number} = {name}"
        for number, name in enumerate(names, 1)
    ]
    uses = "keyCertSign, cRLSign" if authority else "digitalSignature"
    lines = [
        "[req]",
        "prompt = no",
        "string_mask = utf8only",
        "distinguished_name = subject",
        "x509_extensions = extensions",
        "[subject]",
        f"CN = {common_name}",
        "[extensions]",
        f"basicConstraints = critical, CA:{'TRUE, pathlen:0' if authority else 'FALSE'}",
        f"keyUsage = critical, {uses}",
        "subjectKeyIdentifier = hash",
        *([] if authority else ["authorityKeyIdentifier = keyid", "extendedKeyUsage = serverAuth"]),
        *(["subjectAltName = @names", "[names]", *listed] if names else []),
    ]
    return "\n".join(lines) + "\n"
