# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstlight.commands import catalog
from firstlight.errors import OPEN, REFUSED, UsageError

ENTRY: dict[str, Any] = {
    "name": "tiny",
    "source": "made here",
    "date": "2020-01-01",
    "repository": "lab/tiny",
    "revision": None,
    "size_bytes": 1,
    "config": {},
}


def run(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="firstlight")
    catalog.add_parser(parser.add_subparsers(required=True))
    arguments = parser.parse_args(["catalog", "check", *words])
    status: int = arguments.run(arguments)
    return status


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.yml").write_text(yaml.safe_dump(ENTRY), encoding="utf-8")
    return tmp_path


def test_what_is_found_is_told_with_what_to_do(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--catalog", str(own), "--own") == OPEN
    shown = capsys.readouterr().out
    assert "models/tiny (" in shown
    assert "  needed     revision: not known\n             fix: look up the commit" in shown
    assert "  age        date: of 2020-01-01, " in shown
    assert shown.endswith("1 entry, 1 to check.\n")


def test_one_kind_and_another_number_of_days(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--catalog", str(own), "--own", "--only", "age", "--json") == OPEN
    document = json.loads(capsys.readouterr().out)
    assert [(one["kind"], one["entry"], one["field"]) for one in document["findings"]] == [
        ("age", "models/tiny", "date")
    ]
    assert (document["entries"], document["days"]) == (1, 90)
    assert run("--catalog", str(own), "--own", "--only", "age", "--days", "99999") == 0
    assert capsys.readouterr().out == "1 entry, nothing to check.\n"
    with pytest.raises(SystemExit):
        run("--days", "-1")


def test_a_catalog_that_cannot_be_read_is_another_status(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own / "models" / "tiny.yml").write_text("a: [", encoding="utf-8")
    assert run("--catalog", str(own), "--own", "--only", "age") == REFUSED
    assert "unreadable" in capsys.readouterr().out
    with pytest.raises(UsageError, match="name one"):
        run("--own")


def test_the_collections_own_is_looked_at_too(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--catalog", str(own), "--json") == OPEN
    document = json.loads(capsys.readouterr().out)
    assert document["entries"] > 40
    assert {"models/tiny", "sources/nvidia-container-toolkit"} <= {one["entry"] for one in document["findings"]}
