# SPDX-License-Identifier: Apache-2.0
"""Of what a head answers for its keys, only what was asked for is believed, and a certificate only where it is one."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_answer import believed, certificate
from hypothesis import given
from hypothesis import strategies as st

KEY = "sk-fl-0123456789abcdefghij"
AUTHORITY = """-----BEGIN CERTIFICATE-----
MIIBeDCCAR6gAwIBAgIUW+5f1ZKdnjALMw4pxb4F4yCzzX8wCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMTgwMDM4MDlaGA8yMTI2MTAyNTAwMzgw
OVowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKZI
VOWbsWsG46+3QJ6SuR3mkRVXbhCAgl+hHn7o+/qaVCRKKSaJVAW08yivwxo3B+GV
eaaQtRlX/jNtlx7ApISjVjBUMB0GA1UdDgQWBBRXoZmqnyinL/OqzKYni6r7ZPTs
IDAfBgNVHSMEGDAWgBRXoZmqnyinL/OqzKYni6r7ZPTsIDASBgNVHRMBAf8ECDAG
AQH/AgEAMAoGCCqGSM49BAMCA0gAMEUCIC/JCtCqNNycMG26gawJCZPQkc57EVH8
4m1b6Cy9ifiiAiEAvBXO4V9bztJk25BdeJRzUOlWYsZubeaKpXs1MK39pBs=
-----END CERTIFICATE-----
"""
# Self-signed as well, with CA:FALSE.
SERVER = """-----BEGIN CERTIFICATE-----
MIIBcjCCARigAwIBAgIUVU4FKh7WVz6Dy5x9N1hV98znp3YwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEbGVhZjAgFw0yNjExMTgwMDM4MTBaGA8yMTI2MTAyNTAwMzgx
MFowDzENMAsGA1UEAwwEbGVhZjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABCxh
eYZrIErWvuH6iGCi5RwvRFY49JGs07YxW3r3IfMHo9hrCAsRwFLW0DIXOkaGwcPV
DQjLZ+0N68drLqT8UkijUDBOMB0GA1UdDgQWBBQodvnNUhYLH9isW/Axqv26FWUI
CTAfBgNVHSMEGDAWgBQodvnNUhYLH9isW/Axqv26FWUICTAMBgNVHRMBAf8EAjAA
MAoGCCqGSM49BAMCA0gAMEUCIQDcedEtaBZZZDL9IItaWysp1AXKERDD/L1fbWq8
C/iniwIgY2VUYlWK8h9aqEkmnLIvhnOI1jCiBe87xZaNaWgGnIA=
-----END CERTIFICATE-----
"""


def test_what_was_asked_for_is_believed() -> None:
    answer = {"keys": {"alice": KEY}, "authority_pem": AUTHORITY}
    assert believed(["alice", "ci"], True, answer) == ({"alice": KEY}, AUTHORITY)
    assert believed(["alice"], True, {"keys": {}, "authority_pem": ""}) == ({}, "")


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["../../.bashrc", "/etc/cron.d/firstlight", "mallory", "alice.header", "", "."])
def test_a_key_that_nobody_asked_for_spoils_the_answer(name: str) -> None:
    with pytest.raises(ValueError, match="1 keys that were not requested"):
        believed(["alice"], False, {"keys": {"alice": KEY, name: KEY}, "authority_pem": ""})


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["../../.bashrc", "/etc/cron.d/firstlight", "a/b", "alice.header", "alice\n", ""])
def test_a_name_that_is_no_file_name_is_refused_although_it_was_asked_for(name: str) -> None:
    with pytest.raises(ValueError, match="endpoint_keys has"):
        believed([name], False, {"keys": {name: KEY}, "authority_pem": ""})


@pytest.mark.hostile
@pytest.mark.parametrize("value", ["short", f"{KEY}\nX-Forwarded-For: 127.0.0.1", f"{KEY}\r", "x" * 300, [KEY], None])
def test_a_value_that_is_no_token_is_refused_and_not_repeated(value: Any) -> None:
    with pytest.raises(ValueError, match="key alice has") as refused:
        believed(["alice"], False, {"keys": {"alice": value}, "authority_pem": ""})
    assert str(value) not in str(refused.value)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "pem",
    [
        "ssh-ed25519 AAAA operator",
        "-----BEGIN CERTIFICATE-----\nZWNobyBwd25lZA==\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        AUTHORITY.replace("MIIBeDCC", "MIIBeDCD"),
        "# " * 20000 + AUTHORITY,
        AUTHORITY.replace("C", "\u0421"),
    ],
)
def test_what_is_no_certificate_is_refused(pem: str) -> None:
    with pytest.raises(ValueError, match="is not a certificate"):
        certificate(pem)


@pytest.mark.hostile
def test_the_certificate_of_a_server_is_no_authority() -> None:
    with pytest.raises(ValueError, match="one authority"):
        certificate(SERVER)


@pytest.mark.hostile
@pytest.mark.parametrize("pem", [AUTHORITY + SERVER, AUTHORITY.replace("-----END", "!\x1b]0;pwned\x07 \n-----END")])
def test_nothing_comes_along_with_a_certificate(pem: str) -> None:
    assert certificate(pem) == AUTHORITY


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.hostile
@given(answer=st.dictionaries(st.sampled_from(["keys", "authority_pem", "failed"]), ANYTHING))
def test_no_answer_brings_another_name(answer: dict[str, Any]) -> None:
    try:
        keys, pem = believed(["alice"], True, answer)
    except ValueError:
        return
    assert set(keys) <= {"alice"}
    assert pem in ("", AUTHORITY)
