# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from scripts.schemas import since
from scripts.schemas.document import FIELDS, make_document, release, render, write_document

ENGINES = Path(__file__).parents[3] / "catalog" / "engines"
COMMITTED = sorted(ENGINES.glob("*.json"))


def head(**more: Any) -> dict[str, Any]:
    return {
        "engine": "toy",
        "version": "1.0",
        "source": "made here",
        "date": "2026-01-01",
        "generator": "a test",
        "parser": {},
        "arguments": [],
        **more,
    }


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_a_committed_schema_is_what_the_generator_would_write(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert path.name == f"{document['engine']}-{document['version']}.json"
    arguments = [{**argument, "names": []} for argument in document["positional"]] + document["flags"]
    again = make_document(
        engine=document["engine"],
        version=document["version"],
        source=document["source"],
        date=document["date"],
        generator=document["generator"],
        arguments=[{**argument, "deprecated": undo(argument.get("deprecated"))} for argument in arguments],
        parser=document["parser"],
        since=since.load(ENGINES, document["engine"], document["version"]),
    )
    assert render(again) == path.read_text(encoding="utf-8")


def undo(deprecated: str | None) -> str | None:
    """What a reader says, before the document's own words for it."""
    return None if deprecated is None else deprecated.removeprefix("deprecated: ")


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_a_committed_schema_is_complete(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert [list(flag) for flag in document["flags"]] == [list(FIELDS)] * len(document["flags"])
    names = [name for flag in document["flags"] for name in flag["names"]]
    assert len(names) == len(set(names))
    assert not [flag["names"] for flag in document["flags"] if flag["since"] is None]
    assert "/root" not in path.read_text(encoding="utf-8")


def test_arguments_become_sorted_flags_with_all_fields() -> None:
    arguments = [
        {"names": [], "name": "model", "nargs": "?"},
        {"names": ["-z", "--zebra"], "type": "str", "choices": ["b", "a", "b"], "also": ["none", "none"]},
        {"names": ["--ape"], "type": "str", "nargs": 0, "deprecated": "use --zebra"},
        {"names": ["--bee"], "deprecated": "use --nothing", "default": "/root/x"},
    ]
    document = make_document(**head(arguments=arguments, since={"-z": "2.0", "--zebra": "10.0"}))
    ape, bee, zebra = document["flags"]
    assert document["positional"] == [{"name": "model", "type": "str", "nargs": "?"}]
    assert (ape["names"], ape["type"], ape["deprecated"]) == (["--ape"], "bool", "deprecated: use --zebra")
    assert (bee["default"], bee["deprecated"]) == (None, "deprecated by the engine's own help")
    assert (zebra["names"], zebra["type"], zebra["choices"]) == (["--zebra", "-z"], "enum", ["a", "b"])
    assert (zebra["also"], zebra["since"]) == (["none"], "2.0")


@pytest.mark.parametrize("value", ["/var/x", "~/x", f"of {getpass.getuser()}s own", float("inf")])
def test_what_depends_on_the_machine_is_left_out(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", getpass.getuser())
    document = make_document(**head(arguments=[{"names": ["--x"], "default": value}]))
    assert document["flags"][0]["default"] is None or value == f"of {getpass.getuser()}s own"


def test_an_unchanged_schema_keeps_its_date(tmp_path: Path) -> None:
    write_document(make_document(**head()), tmp_path)
    path = write_document(make_document(**head(date="2027-01-01")), tmp_path)
    assert json.loads(path.read_text(encoding="utf-8"))["date"] == "2026-01-01"
    path = write_document(make_document(**head(date="2027-01-01", source="another")), tmp_path)
    assert json.loads(path.read_text(encoding="utf-8"))["date"] == "2027-01-01"


def test_releases_have_an_order() -> None:
    versions = ["0.9.2", "0.10.0", "1.0.0rc1", "1.0.0rc2.post1", "1.0.0rc10", "1.0.0", "1.0.0.post1", "1.0.1"]
    assert sorted(versions, key=release) == versions
