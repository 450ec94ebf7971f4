# SPDX-License-Identifier: Apache-2.0
"""`firstlight diagnose`: what a person sees, what a program gets, the pictures, and the status."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree

import pytest

from firstlight.cli import main
from firstlight.commands import diagnose
from firstlight.errors import FirstlightError

CAPTURES = Path(__file__).resolve().parents[2] / "fixtures" / "gpu-captures"
SPARK = str(CAPTURES / "spark-session.txt")
TOPO = str(CAPTURES / "h100-topo.txt")
COLLECTION = str(CAPTURES / "collection")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ([SPARK, "--hardware", "gb10"], 0),
        ([TOPO, "--hardware", "h100-sxm-8"], 0),
        ([TOPO, "--hardware", "h100-sxm-4"], 1),
        ([str(CAPTURES / "h100-pcie-fallback.txt"), "--hardware", "h100-sxm-8"], 1),
        ([COLLECTION], 1),
        ([TOPO, __file__, "--hardware", "h100-sxm-8"], 3),
        ([__file__, "--hardware", "gb10"], 3),
        ([TOPO, "--hardware", "h100-sxm-8", "--kind", "vllm-metrics"], 3),
    ],
)
def test_the_status(words: list[str], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", *words]) == status
    assert main(["diagnose", *words, "--json"]) == status
    capsys.readouterr()


def test_what_a_person_sees(capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", COLLECTION])
    out = capsys.readouterr().out
    assert out.index("\nnode2\n") < out.index("GPU 3: 16 of 18 links active")
    second = out[out.index("\nnode2\n") :]
    assert second.index("\nfail\n") < second.index("\npass\n")
    assert second.index("\npass\n") < second.index("GPU0  GPU1")
    assert out.splitlines()[-1].startswith("evaluated as h100-sxm-8: 1 fail, ")


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", SPARK, "--hardware", "gb10", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["hardware"] == "gb10"
    assert sorted(document["parsed"][SPARK]) == ["ethtool", "ray-status", "rdma-link"]
    assert {check["host"] for check in document["checks"]} == {"spark0"}
    told = {check["id"]: check["verdict"] for check in document["checks"]}
    assert (told["port.state"], told["port.speed"], told["ray.gpus"]) == ("pass", "pass", "pass")


def test_from_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(Path(TOPO).read_bytes()))
    monkeypatch.setattr(sys, "stdin", stream)
    assert main(["diagnose", "--hardware", "h100-sxm-8", "--json", "-"]) == 0
    assert list(json.loads(capsys.readouterr().out)["parsed"]) == ["standard input"]


def test_a_page_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "topology.svg"
    main(["diagnose", COLLECTION, "--html", str(page), "--svg", str(picture)])
    capsys.readouterr()
    assert "nvlink.links" in page.read_text(encoding="utf-8")
    for path in (picture, tmp_path / "topology-2.svg"):
        assert ElementTree.fromstring(path.read_text(encoding="utf-8")).tag.endswith("svg")


def test_no_picture_without_a_topology(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", SPARK, "--hardware", "gb10", "--svg", str(tmp_path / "x.svg")]) == 0
    assert "no picture written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([SPARK, "--hardware", "gb11"], "the profile is 'gb11', expected one of the catalog: did you mean gb10?"),
        ([SPARK], "no hardware profile is named for"),
        (["absent.txt", "--hardware", "gb10"], "absent.txt cannot be read (No such file or directory)"),
        ([SPARK, "--hardware", "gb10", "--html", "absent/page.html"], "absent/page.html cannot be written"),
        ([SPARK, "--hardware", "gb10", "--catalog", "absent"], "the catalog cannot be used"),
    ],
)
def test_what_cannot_be_used(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"firstlight: {message}")


@pytest.mark.hostile
def test_the_names_of_files_are_nothing_that_a_terminal_obeys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "\x1b]0;pwned\x07.txt").write_text("hello")
    assert main(["diagnose", str(tmp_path)]) == 2
    assert main(["diagnose", str(tmp_path), "--hardware", "gb10"]) == 3
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err


@pytest.mark.hostile
def test_an_error_is_nothing_that_a_terminal_obeys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> NoReturn:
        raise FirstlightError("a host said \x1b[2J")

    monkeypatch.setattr(diagnose, "run", fail)
    assert main(["diagnose", SPARK]) == 1
    assert capsys.readouterr().err == "firstlight: a host said \\x1b[2J\n"


def test_an_unknown_kind_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", SPARK, "--hardware", "gb10", "--kind", "topology"]) == 2
    assert "invalid choice: 'topology'" in capsys.readouterr().err
