# SPDX-License-Identifier: Apache-2.0
"""`firstlight fabric read`: what a person sees, what a program gets, and the status."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from firstlight.cli import main

CAPTURES = Path(__file__).resolve().parents[2] / "fixtures" / "fabric-captures"


def captured(name: str) -> str:
    return str(CAPTURES / f"{name}.txt")


@pytest.mark.parametrize(
    ("name", "status", "line"),
    [
        ("spark-right", 0, "4 ports from rdma link, ibv_devinfo, ethtool; evaluated as gb10: nothing is wrong."),
        ("spark-100g", 1, "4 ports from rdma link, ibv_devinfo, ethtool; evaluated as gb10: 1 thing wrong."),
        ("spark-half", 1, "4 ports from ibdev2netdev; evaluated as gb10: 1 thing wrong."),
        ("hgx-ibstat", 1, "10 ports from ibstat; no profile named, so no speed is expected: 3 things wrong."),
    ],
)
def test_verdict(name: str, status: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fabric", "read", captured(name)]) == status
    assert capsys.readouterr().out.splitlines()[-1] == line


def test_what_a_person_sees(capsys: pytest.CaptureFixture[str]) -> None:
    main(["fabric", "read", captured("spark-100g"), "--hardware", "gb10"])
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[0].split()) == "device port cage state speed Mb/s link layer RDMA MTU firmware"
    assert " ".join(lines[3].split()) == "rocep1s0f1 enp1s0f1np1 1 ACTIVE 100000 Ethernet 1024 28.45.4028"
    assert lines[5].startswith("wrong: RDMA MTU of enp1s0f1np1, enP2p1s0f1np1 is 1024, expected 4096")
    assert lines[7].startswith(
        "note: enp1s0f1np1, enP2p1s0f1np1 are at 100000 Mb/s, expected 200000: the switch port negotiated 100G, which "
        "serves: decode about 3 % slower at most"
    )
    assert lines[7].endswith("Set it to 200G (200G-baseCR4), autonegotiation and FEC on the switch.")


def test_a_narrow_terminal_cuts_no_name(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    main(["fabric", "read", captured("spark-right")])
    assert "enP2p1s0f1np1" in capsys.readouterr().out


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fabric", "read", captured("spark-half"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["profile"] == "gb10"
    assert [one["id"] for one in document["findings"]] == ["cage.half", "cage.dark"]
    assert len(document["ports"]) == 4


class Stdin:
    """Standard input with these bytes."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


@pytest.mark.parametrize("arguments", [[], ["-"]])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_standard_input(arguments: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Path(captured("spark-half")).read_text(encoding="utf-8").encode(encoding)
    monkeypatch.setattr(sys, "stdin", Stdin(data))
    assert main(["fabric", "read", *arguments]) == 1


def test_several_files_are_one_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    speed = tmp_path / "ethtool.txt"
    speed.write_text("Settings for enp1s0f1np1:\n\tSpeed: 100000Mb/s\n", encoding="utf-8")
    assert main(["fabric", "read", captured("spark-half"), str(speed)]) == 1
    assert "enp1s0f1np1 is at 100000 Mb/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"", [], "no output of a known tool"),
        (b"\xff\x00\x01 noise", [], "no output of a known tool"),
        (b"lo UNKNOWN 127.0.0.1/8\n", [], "has the output of ip, but no fabric port in it"),
        (b"x" * ((8 << 20) + 1), [], "is larger than 8 MiB"),
        (b"mlx5_0 port 1 ==> eth0 (Up)", ["--hardware", "gb1"], "did you mean gb10?"),
    ],
)
def test_what_cannot_be_read(
    content: bytes, arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "capture.txt"
    path.write_bytes(content)
    assert main(["fabric", "read", str(path), *arguments]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fabric", "read", str(tmp_path / "none.txt")]) == 2
    assert "cannot be read (No such file or directory)" in capsys.readouterr().err
