# SPDX-License-Identifier: Apache-2.0
"""The certificate with the real openssl: an authority that stays, certificates that come and go, given ones."""

from __future__ import annotations

import datetime
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.durable import write_durable
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint import certificate
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.certificate import converge, join, split
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.openssl import (
    CertificateError,
    is_issued_by,
    make_authority,
    make_certificate,
    public_of_certificate,
    public_of_key,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host

pytestmark = pytest.mark.slow  # openssl makes keys and certificates

NAMES = ["head", "10.0.0.1", "fd00::1"]
# A certificate that is made in a test holds from a moment after this file was read.
NOW = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)


def keep(place: Path, check: bool = False, now: datetime.datetime = NOW, **changes: Any) -> dict[str, Any]:
    parameters = {
        "directory": str(place),
        "names": NAMES,
        "required_names": [],
        "days": 397,
        "renew_days": 30,
        "certificate": None,
        "key": None,
        **changes,
    }
    return converge(Host(), parameters, check, now)


@pytest.fixture(scope="module")
def first_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made")
    keep(place)
    return place


@pytest.fixture
def made(first_made: Path, tmp_path: Path) -> Path:
    """A directory in which an authority and a certificate were made; each test gets a copy of its own."""
    shutil.copytree(first_made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def read(place: Path, name: str) -> str:
    return (place / name).read_text()


def test_authority_and_certificate_are_made_once(tmp_path: Path) -> None:
    assert keep(tmp_path, check=True)["changed"]
    assert list(tmp_path.iterdir()) == []
    made = keep(tmp_path)
    assert made["reasons"] == ["there is no authority", "there is no certificate"]
    assert (made["own"], made["names"]) == (True, NAMES)
    assert made["days_left"] in (396, 397)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {
        "ca.key": 0o600,
        "ca.crt": 0o644,
        "server.pem": 0o600,
        "server.crt": 0o644,
        "reload-pending": 0o600,
    }
    assert "PRIVATE KEY" not in read(tmp_path, "server.crt") + read(tmp_path, "ca.crt")
    before = read(tmp_path, "server.pem")
    assert keep(tmp_path)["reasons"] == []
    assert read(tmp_path, "server.pem") == before
    verified = ["openssl", "verify", "-CAfile", str(tmp_path / "ca.crt"), "-verify_ip", "fd00::1"]
    subprocess.run([*verified, str(tmp_path / "server.crt")], check=True, capture_output=True)


def test_it_is_made_anew_near_its_end_and_the_authority_stays(made: Path) -> None:
    authority, before = read(made, "ca.crt"), read(made, "server.crt")
    later = NOW + datetime.timedelta(days=380)
    assert "it expires in" in keep(made, check=True, now=later)["reasons"][0]
    assert read(made, "server.crt") == before
    assert keep(made, now=later)["changed"]
    assert read(made, "server.crt") != before
    assert read(made, "ca.crt") == authority


def test_other_names_are_a_reason(made: Path) -> None:
    assert keep(made, names=["head"])["reasons"] == ["it is also valid for 10.0.0.1, fd00::1"]
    assert keep(made, names=["head"])["changed"] is False


def test_what_somebody_broke_is_mended(made: Path) -> None:
    (made / "server.pem").write_text("nothing")
    assert keep(made)["reasons"] == ["the certificate in place cannot be read"]
    (made / "server.crt").chmod(0o600)
    assert keep(made)["changed"]
    (made / "ca.key").unlink()
    assert keep(made)["reasons"] == ["the authority's key is gone", "it was not issued by this authority"]


@pytest.mark.hostile
@pytest.mark.parametrize("gone", [["ca.key"], ["ca.crt"], ["ca.key", "ca.crt"]])
@pytest.mark.parametrize("written", ["ca.crt", "ca.key"])
def test_a_run_that_ends_within_an_authority_leaves_none_that_lasts(
    made: Path, monkeypatch: pytest.MonkeyPatch, gone: list[str], written: str
) -> None:
    for name in gone:
        (made / name).unlink()
    write = write_durable

    def cut_off(path: str, content: str, mode: int) -> None:
        write(path, content, mode)
        if path.endswith(written):
            raise OSError("the power failed")

    monkeypatch.setattr(certificate, "write_durable", cut_off)
    with pytest.raises(OSError, match="the power failed"):
        keep(made)
    monkeypatch.undo()
    keep(made)
    assert keep(made)["changed"] is False
    assert is_issued_by(Host(), read(made, "server.pem"), read(made, "ca.crt"))
    assert public_of_key(Host(), read(made, "ca.key")) == public_of_certificate(Host(), read(made, "ca.crt"))


def test_an_authority_near_its_end_signs_nothing(made: Path) -> None:
    with pytest.raises(CertificateError, match=r"expires in \d+ days"):
        keep(made, now=NOW + datetime.timedelta(days=3640))


def test_one_that_would_be_made_by_every_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="endpoint_renew_days is 30"):
        keep(tmp_path, days=30)


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    certificate, key = make_certificate(Host(), make_authority(Host(), "Somebody"), "llm", ["llm.example.org"], 90)
    return {"certificate": certificate, "key": key}


def test_a_given_one_is_put_in_place(tmp_path: Path, given: dict[str, Any]) -> None:
    put = keep(tmp_path, required_names=["llm.example.org"], **given)
    assert (put["changed"], put["own"], put["names"]) == (True, False, ["llm.example.org"])
    assert read(tmp_path, "server.pem") == join(given["certificate"], given["key"])
    assert keep(tmp_path, **given)["changed"] is False
    assert not (tmp_path / "ca.key").exists()


def test_back_to_our_own(tmp_path: Path, given: dict[str, Any]) -> None:
    keep(tmp_path, **given)
    assert keep(tmp_path)["reasons"] == ["there is no authority", "it was not issued by this authority"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"key": None}, "only one of"),
        ({"key": "-----BEGIN ENCRYPTED PRIVATE KEY-----"}, "has a password"),
        ({"certificate": "nothing"}, "openssl"),
        ({"required_names": ["other.example.org"]}, "not for other.example.org"),
        ({"now": NOW + datetime.timedelta(days=91)}, "it expired"),
    ],
)
def test_one_that_cannot_serve_is_refused(
    tmp_path: Path, given: dict[str, Any], change: dict[str, Any], words: str
) -> None:
    with pytest.raises(CertificateError, match=words) as caught:
        keep(tmp_path, **{**given, **change})
    assert given["key"].splitlines()[1] not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_key_of_another_one_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    _, other = make_authority(Host(), "Another")
    with pytest.raises(CertificateError, match="its key does not match it"):
        keep(tmp_path, **{**given, "key": other})


def test_one_file_has_both(given: dict[str, Any]) -> None:
    certificate, key = split(join(given["certificate"], given["key"]))
    assert (certificate.strip(), key.strip()) == (given["certificate"].strip(), given["key"].strip())
