# SPDX-License-Identifier: Apache-2.0
"""Host keys: fingerprints, an inventory's known_hosts file, and whether to trust a presented key. Pure functions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from firstlight.errors import UsageError

from .faults import Fault, key_changed, key_unexpected, key_unknown

DEFAULT_PORT = 22
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
PINNED, LISTED, ACCEPTED = "pinned", "listed", "accepted"
"""Why a key is trusted: it was pinned before, is listed in the fingerprint file, or was just accepted."""


@dataclass(frozen=True)
class HostKey:
    """A public key as presented by a host."""

    kind: str
    blob: str

    @property
    def fingerprint(self) -> str:
        """The fingerprint as printed by `ssh-keygen -l`."""
        try:
            raw = base64.b64decode(self.blob, validate=True)
        except (binascii.Error, ValueError):
            return "SHA256:unreadable"
        return "SHA256:" + base64.b64encode(hashlib.sha256(raw).digest()).decode("ascii").rstrip("=")


def place(address: str, port: int) -> str:
    """Format an address as in known_hosts."""
    return address if port == DEFAULT_PORT else f"[{address}]:{port}"


def pins(known_hosts: str) -> dict[str, list[HostKey]]:
    """Parse keys by name and address; lines with a marker (@revoked) or hashed names are not ours and are skipped."""
    found: dict[str, list[HostKey]] = {}
    for line in known_hosts.splitlines():
        words = line.split()
        if len(words) < 3 or words[0].startswith(("#", "@", "|")):
            continue
        for name in words[0].split(","):
            found.setdefault(name, []).append(HostKey(words[1], words[2]))
    return found


def with_pin(known_hosts: str, name: str, where: str, key: HostKey) -> str:
    """Return the file with this key pinned; unchanged if it is pinned already."""
    known = pins(known_hosts)
    missing = [one for one in dict.fromkeys((name, where)) if key not in known.get(one, [])]
    if not missing:
        return known_hosts
    kept = known_hosts if not known_hosts or known_hosts.endswith("\n") else known_hosts + "\n"
    return f"{kept}{','.join(missing)} {key.kind} {key.blob}\n"


def without_pins(known_hosts: str, names: Collection[str]) -> str:
    """Return the file without the keys of these names and addresses; other names on the same lines keep theirs."""
    kept = []
    for line in known_hosts.splitlines():
        words = line.split()
        if len(words) < 3 or words[0].startswith(("#", "@", "|")):
            kept.append(line)
            continue
        listed = words[0].split(",")
        others = [name for name in listed if name not in names]
        if others == listed:
            kept.append(line)
        elif others:
            kept.append(" ".join([",".join(others), *words[1:]]))
    return "".join(f"{line}\n" for line in kept)


def parse_fingerprints(text: str) -> dict[str, str]:
    """Parse lines of `NODE SHA256:...`; other words in a line are ignored. Raises UsageError for an invalid line."""
    listed: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#")[0].split()
        if not words:
            continue
        prints = [word for word in words[1:] if _FINGERPRINT.fullmatch(word)]
        if len(prints) != 1:
            raise UsageError(
                f"line {number} of the fingerprints is {line.strip()[:80]!r}; expected a node or address and one "
                "SHA256:... as `ssh-keygen -l` prints it. Correct the line."
            )
        listed[words[0]] = prints[0]
    return listed


def evaluate(
    key: HostKey, known: Sequence[HostKey], listed: Mapping[str, str], names: Sequence[str], accepted: Sequence[str]
) -> str | Fault:
    """Return why this key is trusted, or the fault. A key that differs from the pinned one is always rejected."""
    if known:
        if key in known:
            return PINNED
        return key_changed(" or ".join(one.fingerprint for one in known), key.fingerprint)
    expected = [listed[name] for name in names if name in listed]
    if expected:
        return LISTED if key.fingerprint in expected else key_unexpected(expected[0], key.fingerprint)
    return ACCEPTED if set(names) & set(accepted) else key_unknown(key.fingerprint)
