# SPDX-License-Identifier: Apache-2.0
"""Whom a key belongs to, and when it is trusted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from firstlight.errors import FirstlightError
from firstlight.ssh.faults import Fault
from firstlight.ssh.host_keys import HostKey, evaluate, parse_fingerprints, pins, place, with_pin, without_pins

ONE = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIAwmaaOl67Yg/OYERrXT123KZvVJM4RdhTNZ5+qMDrgA")
OTHER = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIBvcHeWtPcBr7IVF02vsuNnmT2SZYMjk8F39ALCd+bdc")
NAMES = ("spark0", "10.0.0.5")


def kind(verdict: str | Fault) -> str:
    return verdict.kind if isinstance(verdict, Fault) else verdict


def test_the_fingerprint_is_the_one_of_ssh_keygen(tmp_path: Path) -> None:
    file = tmp_path / "key.pub"
    file.write_text(f"{ONE.kind} {ONE.blob}\n")
    said = subprocess.check_output(["ssh-keygen", "-lf", str(file)], text=True)
    assert said.split()[1] == ONE.fingerprint


def test_a_key_is_pinned_once_for_name_and_address() -> None:
    text = with_pin("# mine", "spark0", "10.0.0.5", ONE)
    assert text == f"# mine\nspark0,10.0.0.5 {ONE.kind} {ONE.blob}\n"
    assert with_pin(text, "spark0", "10.0.0.5", ONE) == text
    assert pins(text) == {"spark0": [ONE], "10.0.0.5": [ONE]}


def test_a_name_that_is_learned_later_is_added() -> None:
    text = with_pin(f"10.0.0.5 {ONE.kind} {ONE.blob}\n", "spark0", "10.0.0.5", ONE)
    assert text.splitlines()[1] == f"spark0 {ONE.kind} {ONE.blob}"


def test_the_key_of_exactly_one_node_is_taken_out() -> None:
    before = f"# mine\nspark0,10.0.0.5 {ONE.kind} {ONE.blob}\nspark1,10.0.0.6 {OTHER.kind} {OTHER.blob} note\n"
    after = without_pins(before, ("spark0", "10.0.0.5"))
    assert after == f"# mine\nspark1,10.0.0.6 {OTHER.kind} {OTHER.blob} note\n"
    assert without_pins(before, ("spark1",)).splitlines()[2] == f"10.0.0.6 {OTHER.kind} {OTHER.blob} note"
    assert without_pins(before, ("spark10", "10.0.0.55")) == before


def test_other_lines_are_passed_over() -> None:
    assert pins(f"@revoked * {ONE.kind} {ONE.blob}\n|1|a|b {ONE.kind} {ONE.blob}\nshort line\n") == {}


def test_another_port_is_written_as_openssh_does() -> None:
    assert [place("10.0.0.5", port) for port in (22, 2222)] == ["10.0.0.5", "[10.0.0.5]:2222"]


@pytest.mark.parametrize(
    ("known", "listed", "accepted", "expected"),
    [
        ([], {}, [], "host-key-unknown"),
        ([], {}, ["spark1"], "host-key-unknown"),
        ([], {}, ["spark0"], "accepted"),
        ([], {}, ["10.0.0.5"], "accepted"),
        ([ONE], {}, [], "pinned"),
        ([OTHER], {}, [], "host-key-changed"),
        ([OTHER], {"spark0": ONE.fingerprint}, ["spark0"], "host-key-changed"),
        ([], {"10.0.0.5": ONE.fingerprint}, [], "listed"),
        ([], {"spark0": OTHER.fingerprint}, ["spark0"], "host-key-unexpected"),
        ([OTHER, ONE], {}, [], "pinned"),
    ],
)
def test_a_changed_key_is_refused_whatever_else_was_said(
    known: list[HostKey], listed: dict[str, str], accepted: list[str], expected: str
) -> None:
    assert kind(evaluate(ONE, known, listed, NAMES, accepted)) == expected


def test_the_refusal_names_both_keys() -> None:
    verdict = evaluate(ONE, [OTHER], {}, NAMES, [])
    assert isinstance(verdict, Fault)
    assert ONE.fingerprint in verdict.found
    assert OTHER.fingerprint in verdict.expected


def test_fingerprints_are_read_with_what_ssh_keygen_prints_beside_them() -> None:
    text = f"# stickers\nspark0 256 {ONE.fingerprint} root@spark0 (ED25519)\n\n10.0.0.6 {OTHER.fingerprint}\n"
    assert parse_fingerprints(text) == {"spark0": ONE.fingerprint, "10.0.0.6": OTHER.fingerprint}


@pytest.mark.parametrize("line", ["spark0", "spark0 MD5:aa:bb", "spark0 SHA256:short", ONE.fingerprint])
def test_a_line_without_a_fingerprint_is_refused(line: str) -> None:
    with pytest.raises(FirstlightError, match="line 1 of the fingerprints"):
        parse_fingerprints(line)
