# SPDX-License-Identifier: Apache-2.0
"""Certificates as openssl shows them, and when one has to be made anew."""

from __future__ import annotations

import datetime

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.certificate_text import (
    Certificate,
    covers,
    days_left,
    parse_certificate,
    parse_date,
    reasons_to_refuse,
    reasons_to_renew,
    request_settings,
)
from hypothesis import given
from hypothesis import strategies as st

SHOWN = """issuer=CN = Firstlight authority of spark0
notBefore=Nov 16 03:03:13 2026 GMT
notAfter=Dec 18 03:03:13 2027 GMT
X509v3 Subject Alternative Name:
    DNS:head, IP Address:10.0.0.1, IP Address:FD00:0:0:0:0:0:0:1, DNS:*.example.org
"""
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
NOW = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
FOUND = parse_certificate(SHOWN)


def test_a_certificate_is_read() -> None:
    assert (
        Certificate(
            "CN = Firstlight authority of spark0",
            datetime.datetime(2026, 11, 16, 3, 3, 13, tzinfo=datetime.UTC),
            datetime.datetime(2027, 12, 18, 3, 3, 13, tzinfo=datetime.UTC),
            ("head", "10.0.0.1", "fd00::1", "*.example.org"),
        )
        == FOUND
    )
    assert days_left(FOUND, NOW) == 393


def test_one_without_names_has_none() -> None:
    assert parse_certificate("\n".join(SHOWN.splitlines()[:3])).names == ()


@pytest.mark.parametrize("text", ["", "unable to load certificate", SHOWN.replace("notAfter", "after")])
def test_what_is_no_certificate_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="openssl showed no"):
        parse_certificate(text)


@given(st.datetimes(timezones=st.just(datetime.UTC)))
def test_every_date_is_read_back(moment: datetime.datetime) -> None:
    whole = moment.replace(microsecond=0)
    month = MONTHS[whole.month - 1]
    assert parse_date(f"{month} {whole.day:2d} {whole:%H:%M:%S} {whole.year:04d} GMT") == whole


@pytest.mark.parametrize("text", ["", "16.11.2026", "Okt 16 03:03:13 2026 GMT"])
def test_another_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="openssl wrote the date"):
        parse_date(text)


def test_a_certificate_that_is_right_stays() -> None:
    assert reasons_to_renew(FOUND, list(FOUND.names), NOW, 30) == []


def test_why_one_is_made_anew() -> None:
    names = list(FOUND.names)
    late, over = FOUND.not_after - datetime.timedelta(days=29), FOUND.not_after + datetime.timedelta(days=1)
    assert reasons_to_renew(FOUND, names, late, 30) == ["it expires in 29 days"]
    assert reasons_to_renew(FOUND, names, over, 30) == ["it expired 2027-12-18"]
    assert reasons_to_renew(FOUND, [*names, "new"], NOW, 30) == ["it is not valid for new"]
    assert reasons_to_renew(FOUND, names[:3], NOW, 30) == ["it is also valid for *.example.org"]
    assert "only from" in reasons_to_renew(FOUND, names, FOUND.not_before - datetime.timedelta(days=1), 30)[0]


def test_a_given_one_must_hold_and_be_for_its_names() -> None:
    assert reasons_to_refuse(FOUND, ["llm.example.org", "10.0.0.1"], NOW) == []
    assert "not for a.b.example.org" in reasons_to_refuse(FOUND, ["a.b.example.org"], NOW)[0]
    assert reasons_to_refuse(FOUND, [], FOUND.not_after) == ["it expired 2027-12-18"]
    assert not covers(FOUND, "example.org")


def test_openssl_is_told_all_of_it() -> None:
    text = request_settings("head", ["head", "fd00::1"], authority=False)
    assert "DNS.1 = head" in text
    assert "IP.2 = fd00::1" in text
    assert "CA:FALSE" in text
    assert "CA:TRUE, pathlen:0" in request_settings("authority", [], authority=True)
