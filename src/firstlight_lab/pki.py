# SPDX-License-Identifier: Apache-2.0
"""The lab's certificate authority, and the certificate of its services."""

from __future__ import annotations

from pathlib import Path

from .cache import Cache
from .shell import run

NAMES = ("registry.lab.example", "hub.lab.example", "apt.lab.example", "wheels.lab.example")


def ensure_pki(cache: Cache) -> Path:
    """Create authority and server certificate once; the authority's key never leaves this directory."""
    pki = cache.pki
    extensions = pki / "services.ext"
    names = "subjectAltName=" + ",".join(f"DNS:{name}" for name in NAMES) + "\n"
    if (pki / "services.crt").exists() and extensions.exists() and extensions.read_text() == names:
        return pki
    pki.mkdir(parents=True, exist_ok=True)
    pki.chmod(0o700)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    if not (pki / "services.crt").exists():
        run(
            ["openssl", "req", "-x509", *key, "-days", "3650", "-subj", "/CN=Firstlight lab authority"]
            + ["-keyout", str(pki / "ca.key"), "-out", str(pki / "ca.crt")]
        )
        run(
            ["openssl", "req", *key, "-subj", "/CN=services.lab.example"]
            + ["-keyout", str(pki / "services.key"), "-out", str(pki / "services.csr")]
        )
    # A new service only adds a name to the certificate; authority and key are kept, because nodes already trust them.
    extensions.write_text(names)
    run(
        [
            "openssl",
            "x509",
            "-req",
            "-days",
            "3650",
            "-in",
            str(pki / "services.csr"),
            "-extfile",
            str(extensions),
        ]
        + ["-CA", str(pki / "ca.crt"), "-CAkey", str(pki / "ca.key"), "-CAcreateserial"]
        + ["-out", str(pki / "services.crt.new")]
    )
    (pki / "services.crt.new").rename(pki / "services.crt")
    return pki
