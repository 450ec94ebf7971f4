# SPDX-License-Identifier: Apache-2.0
"""Read fingerprints of OpenPGP public keys without gpg, which minimal hosts lack."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator

_BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_END = "-----END PGP PUBLIC KEY BLOCK-----"
_PUBLIC_KEY = 6
_KEPT = frozenset({2, _PUBLIC_KEY, 13, 14, 17})
"""Packets to keep: signatures, public keys and subkeys, user ids and attributes. Others could contain more keys."""


def fingerprints(armored: str) -> list[str]:
    """Return the upper-case fingerprint of every primary key in the text. Raises ValueError for anything else."""
    found = [_fingerprint(body) for tag, body, _ in _packets(_binary(armored)) if tag == _PUBLIC_KEY]
    if not found:
        raise ValueError("the text has a key block, but no public key in it: export it with `gpg --armor --export`")
    return found


def keyring(armored: str) -> str:
    """Return the keys of a text as one armored block, containing only packets that `fingerprints` has parsed.

    apt and gpg have their own rules for the end of a block, its headers and its lines: from the original text they
    might read a key that was never compared with a pin.
    """
    return _armor(b"".join(whole for tag, _, whole in _packets(_binary(armored)) if tag in _KEPT))


def armored(data: bytes) -> str:
    """Convert a key file, armored or binary, to ASCII-armored text. Raises ValueError for anything else."""
    if data.lstrip().startswith(b"-----BEGIN "):
        return data.decode("utf-8", errors="replace")
    if not any(tag == _PUBLIC_KEY for tag, _, _ in _packets(data)):
        raise ValueError("the file is not an OpenPGP public key: export it with `gpg --armor --export`")
    return _armor(data)


def _armor(data: bytes) -> str:
    text = base64.b64encode(data).decode("ascii")
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    checksum = base64.b64encode(_crc24(data).to_bytes(3, "big")).decode("ascii")
    return "\n".join([_BEGIN, "", *lines, f"={checksum}", _END, ""])


def _crc24(data: bytes) -> int:
    """Compute the checksum of an armored text (RFC 4880, 6.1)."""
    value = 0xB704CE
    for byte in data:
        value ^= byte << 16
        for _ in range(8):
            value <<= 1
            if value & 0x1000000:
                value ^= 0x1864CFB
    return value


def plain_fingerprint(text: str) -> str:
    """Strip blanks and colons from a fingerprint, to its 40 digits. Raises ValueError for a short one."""
    digits = "".join(text.replace(":", " ").split()).upper().removeprefix("0X")
    if len(digits) != 40 or digits.strip("0123456789ABCDEF"):
        raise ValueError(
            f"the fingerprint {text!r} is not 40 hexadecimal digits: a short key id can be forged, give the whole "
            "fingerprint that `gpg --show-keys` prints"
        )
    return digits


def _binary(armored: str) -> bytes:
    """Decode the content of all key blocks, without headers and checksums."""
    data = b""
    inside = False
    body: list[str] = []
    for raw in armored.splitlines():
        line = raw.strip()
        if line == _BEGIN:
            inside, body = True, []
        elif line == _END and inside:
            inside = False
            try:
                data += base64.b64decode("".join(body), validate=True)
            except binascii.Error as error:
                raise ValueError(f"the key is damaged ({error}): fetch it again") from error
        elif inside and ": " not in line and not line.startswith("="):
            body.append(line)
    if not data or inside:
        raise ValueError(
            f"the key is not an ASCII-armored public key ({_BEGIN}): export it with `gpg --armor --export`"
        )
    return data


def _packets(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield tag, body and all bytes of each packet, in old or new format."""
    place = 0
    while place < len(data):
        start = place
        header = data[place]
        place += 1
        if not header & 0x80:
            raise ValueError("the key is damaged (a packet does not start where it should): fetch it again")
        if header & 0x40:
            tag = header & 0x3F
            length, place = _new_length(data, place)
        else:
            tag = (header >> 2) & 0x0F
            width = 1 << (header & 3)
            if width == 8:
                raise ValueError("the key has a packet of unknown length: export it with `gpg --armor --export`")
            length, place = int.from_bytes(data[place : place + width], "big"), place + width
        body = data[place : place + length]
        if len(body) != length:
            raise ValueError("the key is cut off: fetch it again")
        place += length
        yield tag, body, data[start:place]


def _new_length(data: bytes, place: int) -> tuple[int, int]:
    first = data[place] if place < len(data) else 0
    if first < 192:
        return first, place + 1
    if first < 224 and place + 1 < len(data):
        return ((first - 192) << 8) + data[place + 1] + 192, place + 2
    if first == 255:
        return int.from_bytes(data[place + 1 : place + 5], "big"), place + 5
    raise ValueError("the key has a packet in parts: export it with `gpg --armor --export`")


def _fingerprint(body: bytes) -> str:
    if not body or body[0] != 4:
        raise ValueError(f"the key is of OpenPGP version {body[0] if body else 'none'}, expected 4, as apt uses")
    # RFC 4880, 12.2, defines the fingerprint as SHA-1; its security is that of the pin.
    return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False).hexdigest().upper()
