# SPDX-License-Identifier: Apache-2.0
"""Validate a head's answer with the keys of its endpoint; the head is not trusted."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.endpoint import check_value, read_keys

_DO = (
    "expected the keys of endpoint_keys and the certificate that endpoint_certificate made: "
    "find out who changed the host"
)
_BODY = re.compile(r"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/\s]+={0,2})")
_LONGEST = 16 << 10
"""Maximum length of a certificate in characters."""


def believed(names: Sequence[str], authority: bool, answer: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """Return the keys by name and the authority's certificate: only what was asked for.

    Names become paths on the controller, and values a header. Raises ValueError, which never contains a key's value.
    """
    asked = [key.name for key in read_keys([{"name": name} for name in names], 0)]
    keys, pem = answer.get("keys"), answer.get("authority_pem")
    if not isinstance(keys, Mapping) or not isinstance(pem, str):
        raise ValueError(f"the host's answer is not a list of keys and a certificate, {_DO}")
    strange = [name for name in keys if name not in asked]
    if strange:
        raise ValueError(f"the host's answer has {len(strange)} keys that were not requested, {_DO}")
    found = {name: check_value(name, str(keys[name])) for name in asked if name in keys}
    return found, certificate(pem) if authority and pem else ""


def certificate(pem: str) -> str:
    """Re-encode the certificate of an authority from its parsed form, so that nothing else comes along."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Whether Python's own decoder reads past the padding depends on its version.
    body = _BODY.match(pem[:_LONGEST].strip())
    try:
        context.load_verify_locations(cadata=base64.b64decode(body[1] if body else ""))
    except (ssl.SSLError, ValueError):
        raise ValueError(f"the host's ca.crt is not a certificate, {_DO}") from None
    found = context.get_ca_certs(binary_form=True)
    if len(found) != 1:
        raise ValueError(f"the host's ca.crt is not the certificate of one authority, {_DO}")
    return ssl.DER_cert_to_PEM_cert(found[0])
