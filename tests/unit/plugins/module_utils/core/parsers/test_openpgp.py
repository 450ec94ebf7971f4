# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.parsers.openpgp import (
    armored,
    fingerprints,
    plain_fingerprint,
)

KEY = (Path(__file__).parents[5] / "fixtures" / "apt" / "key.asc").read_text(encoding="ascii")
FINGERPRINT = "B09BCE3F11309F4A859400B42CB957E4886442A4"  # as gpg --show-keys prints it


def test_the_fingerprint_is_the_one_gpg_prints() -> None:
    assert fingerprints(KEY) == [FINGERPRINT]


def test_a_second_key_does_not_hide_behind_the_first() -> None:
    assert fingerprints(KEY + KEY) == [FINGERPRINT, FINGERPRINT]


def test_a_version_line_is_no_part_of_the_key() -> None:
    begin, _, rest = KEY.partition("\n")
    assert fingerprints(f"{begin}\nVersion: GnuPG v2\n{rest}") == [FINGERPRINT]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not an ASCII-armored public key"),
        ("<html>404</html>", "not an ASCII-armored public key"),
        (KEY.replace("-----END PGP PUBLIC KEY BLOCK-----", ""), "not an ASCII-armored public key"),
        (KEY.replace("mDME", "!!!!"), "damaged"),
        (KEY.replace("mDME", "ADME"), "damaged"),
        ("\n".join([*KEY.splitlines()[:3], KEY.splitlines()[-1]]), "cut off"),
    ],
)
def test_what_is_no_key_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        fingerprints(text)


def test_fingerprints_are_written_in_many_ways_but_never_short() -> None:
    spaced = " ".join(FINGERPRINT[place : place + 4] for place in range(0, 40, 4))
    assert plain_fingerprint(spaced.lower()) == FINGERPRINT
    assert plain_fingerprint(f"0x{FINGERPRINT}") == FINGERPRINT
    for short in ("2CB957E4886442A4", "886442A4", "", "x" * 40):
        with pytest.raises(ValueError, match="not 40 hexadecimal digits"):
            plain_fingerprint(short)


BODY = "".join(KEY.partition("\n\n")[2].partition("\n=")[0].splitlines())


def test_a_binary_key_is_armored_as_gpg_does_it() -> None:
    text = armored(base64.b64decode(BODY))
    assert text.split() == KEY.split()
    assert fingerprints(text) == [FINGERPRINT]
    assert armored(KEY.encode()) == KEY


@pytest.mark.parametrize("data", [b"", b"<html>404</html>", b"\x88\x01x"])
def test_a_file_that_is_no_key_is_not_armored(data: bytes) -> None:
    with pytest.raises(ValueError, match="key"):
        armored(data)
