# SPDX-License-Identifier: Apache-2.0
"""Files and directories of captures, with a manifest and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firstlight import captures
from firstlight.captures import CaptureError, find_captures


def collection(root: Path, hosts: dict[str, object]) -> Path:
    for host in hosts:
        (root / host).mkdir()
        (root / host / "topo.txt").write_text("hello\n")
    (root / "manifest.json").write_text(json.dumps({"firstlight": 1, "hosts": hosts}))
    return root


def test_a_manifest_names_host_kind_and_profile(tmp_path: Path) -> None:
    about = {"hardware": "gb10", "driver": "580.142", "files": {"topo.txt": {"kind": "nvlink"}}}
    found = find_captures([str(collection(tmp_path, {"spark0": about}))])
    ((capture, told),) = found.captures
    assert (capture.host, capture.kind, told["hardware"]) == ("spark0", "nvlink", "gb10")


def test_a_host_that_did_not_answer_is_told(tmp_path: Path) -> None:
    found = find_captures([str(collection(tmp_path, {"spark1": {"hardware": "gb10", "error": "no route to host"}}))])
    (check,) = found.checks
    assert (check["host"], check["verdict"], check["observed"]) == ("spark1", "could_not_check", "no route to host")


def test_an_unknown_kind_in_a_manifest_is_guessed(tmp_path: Path) -> None:
    found = find_captures([str(collection(tmp_path, {"a": {"files": {"topo.txt": {"kind": ["?"]}}}}))])
    assert found.captures[0][0].kind is None


@pytest.mark.parametrize("text", ["[]", "{}", '{"hosts": []}', '{"hosts": {"a": null}}'])
def test_an_odd_manifest_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_text("x")
    (tmp_path / "manifest.json").write_text(text)
    assert find_captures([str(tmp_path)]).captures[0][0].host == "a"


def test_a_broken_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(CaptureError, match="expected what `firstlight collect` wrote"):
        find_captures([str(tmp_path)])


def test_every_file_below_a_directory_but_reports_and_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.txt", "a.log", "page.html", "picture.svg", ".hidden", "README.md"):
        (tmp_path / name).write_text("x")
    assert [capture.source for capture, _ in find_captures([str(tmp_path)]).captures] == [
        str(tmp_path / "a.log"),
        str(tmp_path / "b.txt"),
    ]


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="has no files in it"):
        find_captures([str(tmp_path)])


def test_a_file_that_is_too_large_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "LARGEST", 10)
    (tmp_path / "x.txt").write_text("x" * 11)
    assert [check["id"] for check in find_captures([str(tmp_path / "x.txt")]).checks] == ["capture"]


def test_other_encodings(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("ACTIVE".encode("utf-16"))
    (tmp_path / "b.txt").write_bytes(b"ACTIVE \xff")
    assert [one.text for one, _ in find_captures([str(tmp_path)]).captures] == ["ACTIVE", "ACTIVE \ufffd"]


@pytest.mark.hostile
def test_no_link_shows_a_file_of_this_machine(tmp_path: Path) -> None:
    home, given = tmp_path / "home", tmp_path / "given"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("secret")
    (home / "manifest.json").write_text('{"hosts": {"secret": {}}}')
    (given / "spark0").mkdir(parents=True)
    (given / "spark0" / "topo.txt").write_text("hello\n")
    (given / "spark0" / "more.txt").symlink_to(home / ".ssh" / "id_ed25519")
    (given / "spark1").symlink_to(home / ".ssh")
    (given / "manifest.json").symlink_to(home / "manifest.json")
    found = find_captures([str(given)])
    assert [capture.text for capture, _ in found.captures] == ["hello\n"]
    assert found.checks == []


@pytest.mark.hostile
@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000, '{"hosts": {}' + 20_000 * " " + "}"])
def test_a_manifest_that_is_a_trap_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(captures, "LARGEST", 10_000 if text.startswith("{") else captures.LARGEST)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(CaptureError, match="expected what `firstlight collect` wrote"):
        find_captures([str(tmp_path)])
