# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.observe import change_log
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.change_log import read_changes

from tests.unit.fake_host import FakeHost, failure, no_answer, not_installed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "var/log/apt").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def entry(moment: str, name: str, before: str, after: str, command: str = "apt upgrade") -> str:
    return (
        f"\nStart-Date: 2026-{moment}\nCommandline: {command}\nUpgrade: {name}:amd64 ({before}, {after})\n"
        f"End-Date: 2026-{moment}\n"
    )


def write(root: Path, name: str, text: str) -> Path:
    path = root / "var/log" / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def read(root: Path, packages: dict[str, str | None], **more: Any) -> dict[str, Any]:
    return read_changes(Host(), packages, root=str(root), **more)


@pytest.mark.usefixtures("berlin")
def test_the_logs_local_time_becomes_utc(root: Path) -> None:
    write(root, "apt/history.log", entry("11-14  06:12:03", "x", "1", "2", "/usr/bin/unattended-upgrade"))
    write(root, "dpkg.log", "2026-11-14 06:12:03 upgrade x:amd64 1 2\n")
    found = read(root, {"x": "2"})
    assert found["packages"]["x"]["at"] == "2026-11-14T05:12:03Z"
    assert found["packages"]["x"]["command"] == "/usr/bin/unattended-upgrade"
    assert found["since"] == "2026-11-14T05:12:03Z"
    assert found["errors"] == {}


def test_rotated_logs_are_read_back_to_the_change(root: Path) -> None:
    write(root, "apt/history.log", entry("11-14  06:00:00", "y", "1", "2"))
    write(root, "apt/history.log.1.gz", entry("10-14  06:00:00", "x", "1", "2", "apt install x"))
    write(root, "dpkg.log", "2026-11-14 06:00:00 upgrade y:amd64 1 2\n")
    write(root, "dpkg.log.1", "")
    write(root, "dpkg.log.2.gz", "2026-10-14 06:00:00 upgrade x:amd64 1 2\n")
    found = read(root, {"x": "2", "y": "2"})["packages"]
    assert found["x"]["command"] == "apt install x"
    assert found["y"]["command"] == "apt upgrade"


def test_older_logs_than_needed_are_not_opened(root: Path) -> None:
    write(root, "apt/history.log", entry("11-13  06:00:00", "x", "0", "1") + entry("11-14  06:00:00", "x", "1", "2"))
    write(root, "dpkg.log", "2026-11-14 06:00:00 upgrade x:amd64 1 2\n")
    for name in ("apt/history.log.1", "dpkg.log.1"):
        (root / "var/log" / name).mkdir()
        write(root, f"{name}.gz", "not looked at")
    assert read(root, {"x": "2"})["errors"] == {}
    assert read(root, {"x": "2"})["packages"]["x"]["after"] == "2"


def test_a_packed_log_that_is_cut_off_gives_what_it_has(root: Path) -> None:
    text = entry("11-13  06:00:00", "x", "1", "2") + "".join(str(number) for number in range(20000))
    path = write(root, "apt/history.log.1.gz", text)
    write(root, "apt/history.log", "")
    path.write_bytes(path.read_bytes()[:-9000])
    assert read(root, {"x": "2"})["packages"]["x"]["after"] == "2"


def test_a_file_that_is_no_gzip_is_passed_over(root: Path) -> None:
    write(root, "apt/history.log", entry("11-13  06:00:00", "x", "1", "2"))
    (root / "var/log/apt/history.log.1.gz").write_bytes(b"nonsense")
    assert read(root, {"x": "2"})["packages"]["x"]["after"] == "2"


def test_of_a_long_log_the_end_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "MOST_BYTES", 300)
    write(root, "apt/history.log", "x" * 5000 + entry("11-13  06:00:00", "x", "1", "2"))
    assert read(root, {"x": "2"})["packages"]["x"]["after"] == "2"


def test_out_of_time_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "MOST_SECONDS", -1.0)
    write(root, "dpkg.log", "")
    assert "were not read" in read(root, {"x": "2"})["errors"][str(root / "var/log/dpkg.log")]


def test_without_logs_there_is_nothing_to_say(tmp_path: Path) -> None:
    found = read(tmp_path, {"x": "2"})
    assert (found["packages"], found["since"]) == ({}, None)


def test_files_and_environments_say_when_they_were_written(tmp_path: Path) -> None:
    site = tmp_path / "opt/v/lib/python3.12/site-packages"
    site.mkdir(parents=True)
    os.utime(tmp_path / "opt/v", (1000, 1000))
    os.utime(site, (2000, 2000))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/a").write_text("")
    os.utime(tmp_path / "etc/a", (3000, 3000))
    os.utime(tmp_path / "etc", (4000, 4000))
    found = read(tmp_path, {}, paths=["/opt/v", "/etc/a", "/etc/gone", "/no/where"])["paths"]
    assert {path: one["changed"] for path, one in found.items()} == {
        "/opt/v": "1970-01-01T00:33:20Z",
        "/etc/a": "1970-01-01T00:50:00Z",
        "/etc/gone": "1970-01-01T01:06:40Z",
        "/no/where": None,
    }


def test_the_file_with_the_last_word_on_a_setting_is_named(tmp_path: Path) -> None:
    files = {
        "usr/lib/sysctl.d/90-a.conf": "vm.swappiness = 60\n",
        "etc/sysctl.d/90-a.conf": "vm.swappiness = 1\n",
        "etc/sysctl.d/95-b.conf": "# vm.swappiness = 5\n-net/ipv4/x =  3\t4\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = read(tmp_path, {}, sysctl=["vm.swappiness", "net.ipv4.x", "no.such"])["sysctl"]
    assert found == {
        "vm.swappiness": {"path": str(tmp_path / "etc/sysctl.d/90-a.conf"), "value": "1"},
        "net.ipv4.x": {"path": str(tmp_path / "etc/sysctl.d/95-b.conf"), "value": "3 4"},
    }


def test_units_say_since_when(tmp_path: Path) -> None:
    text = "Id=a.service\nActiveState=failed\nResult=exit-code\nStateChangeTimestamp=Sat 2026-11-14 06:00:00 UTC\n\n"
    found = read_changes(
        FakeHost({"systemctl": text + "Id=b.service\nResult=\n"}), {}, units=["a.service", "b"], root=str(tmp_path)
    )
    assert found["units"]["a.service"] == {
        "state": "failed",
        "since": "Sat 2026-11-14 06:00:00 UTC",
        "result": "exit-code",
    }
    silent = read_changes(FakeHost({"systemctl": 1}), {}, units=["a.service"], root=str(tmp_path))
    assert silent["units"] == {}
    assert "systemctl" in silent["errors"]["units"]


def test_the_boot_is_the_start_of_process_1(tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/stat").write_text("cpu 1\nbtime 1000\n")
    ticks = 7 * os.sysconf("SC_CLK_TCK")
    (tmp_path / "proc/1/stat").write_text(f"1 (a ) b) S {' '.join(['0'] * 18)} {ticks} 0 0\n")
    assert read(tmp_path, {})["boot"] == "1970-01-01T00:16:47Z"
    (tmp_path / "proc/1/stat").write_text("nonsense")
    assert read(tmp_path, {})["boot"] is None


def test_fwupd_is_asked_for_its_history(root: Path) -> None:
    answer = '{"Devices": [{"Name": "EC", "Version": "1", "Modified": 1785488470, "UpdateState": 2, "Releases": []}]}'
    found = read_changes(FakeHost({"fwupdmgr get-history --json": answer}), {}, fwupd=True, root=str(root))
    assert [one["device"] for one in found["fwupd"]] == ["EC"]
    assert found["errors"] == {}


@pytest.mark.parametrize(
    ("answer", "told"),
    [(not_installed, None), (no_answer, []), (failure("Failed to connect to daemon"), []), ("no JSON", [])],
)
def test_a_fwupd_that_does_not_answer_is_an_error_of_its_own(root: Path, answer: Any, told: object) -> None:
    found = read_changes(FakeHost({"fwupdmgr": answer}), {}, fwupd=True, root=str(root))
    assert found.get("fwupd") == told
    assert ("fwupd" in found["errors"]) is (told is not None)
