# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.openpgp import (
    armored,
    fingerprints,
    keyring,
    plain_fingerprint,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.source import keyring_path, set_files

KEY = (Path(__file__).parents[4] / "fixtures" / "apt" / "key.asc").read_text(encoding="ascii")
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


def packet(tag: int, body: bytes) -> bytes:
    return bytes([0xC0 | tag, len(body)]) + body


def key_of(stranger: bytes) -> bytes:
    """A key packet as small as it can be; three times a number of bytes, so that its text needs no padding."""
    return packet(6, b"\x04" + stranger.ljust(18, b"\x00"))


def as_apt_reads(text: str) -> bytes:
    """What apt's awk program takes out of a text: every line after a blank one, up to the first end of a block."""
    state, taken = 0, []
    for line in text.splitlines():
        state = 1 if line.startswith("-----BEGIN") else 2 if state == 1 and not line else state
        if state == 2 and line and line[0] not in "=-":
            taken.append(line)
        if line.startswith("-----END"):
            break
    return base64.b64decode("".join(taken))


STRANGER = base64.b64encode(key_of(b"stranger")).decode()
BEGIN, _, PINNED = KEY.partition("\n")


@pytest.mark.hostile
@pytest.mark.parametrize(
    "text",
    [
        f"{BEGIN}\n\n{STRANGER}\n{KEY}",
        f"{BEGIN}\n\n{STRANGER[:8]}\n  {BEGIN}\n\n{STRANGER[8:]}\n{KEY}",
        f"{BEGIN}\n\n{STRANGER}\n{BEGIN} \n{PINNED}",
        KEY.replace("\n=", f"\nx: {STRANGER}\n="),
        KEY.replace("\n\n", f"\n\nNote: \n{BEGIN}\n\n"),
    ],
)
def test_what_apt_is_given_holds_no_key_but_the_one_that_was_compared(text: str) -> None:
    assert fingerprints(text) == [FINGERPRINT]
    assert keyring(text) == KEY
    assert as_apt_reads(keyring(text)) == base64.b64decode(BODY)


@pytest.mark.hostile
@pytest.mark.parametrize("tag", [5, 7, 8, 9, 10, 12, 18, 60])
def test_packets_that_may_hold_a_key_and_are_not_compared_are_not_handed_on(tag: int) -> None:
    ridden = armored(base64.b64decode(BODY) + packet(tag, b"\x04stranger"))
    assert fingerprints(ridden) == [FINGERPRINT]
    assert keyring(ridden) == KEY


@pytest.mark.hostile
def test_the_keyring_of_a_source_is_what_was_compared() -> None:
    source = {"uris": ["https://m.example"], "suites": ["./"], "key": f"{BEGIN}\n\n{STRANGER}\n{KEY}"}
    files = set_files("r", "n", {"a": "1"}, ["a"], [{**source, "fingerprint": FINGERPRINT}])
    assert files[keyring_path(FINGERPRINT)]["content"] == KEY
