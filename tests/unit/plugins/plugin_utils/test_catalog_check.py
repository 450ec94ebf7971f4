# SPDX-License-Identifier: Apache-2.0
"""What of a catalog is to look at."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.check import (
    DAYS,
    NEEDED,
    NEEDS,
    NO_SOURCE,
    OLD,
    UNREADABLE,
    Finding,
    check_catalog,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, SCHEMA, load_catalog

TODAY = dt.date(2026, 11, 17)
MODEL: dict[str, Any] = {
    "name": "tiny",
    "source": "made here",
    "date": "2026-11-01",
    "repository": "lab/tiny",
    "revision": "2" * 40,
    "size_bytes": 1,
    "config": {"model_type": "llama"},
}


def site(directory: Path, kind: str = "models", **entry: Any) -> Path:
    """A catalog with one entry."""
    path = directory / kind / f"{entry['name']}.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(entry, sort_keys=False), encoding="utf-8")
    return directory


def findings(*directories: Path, days: int = DAYS) -> list[tuple[str, str, str]]:
    found, _ = check_catalog(directories, TODAY, days)
    assert all(one.found and one.remedy and Path(one.path).is_absolute() for one in found)
    return [(one.kind, one.entry, one.field) for one in found]


def test_an_entry_that_says_everything_is_not_listed(tmp_path: Path) -> None:
    found, entries = check_catalog([site(tmp_path, **MODEL)], TODAY)
    assert (found, entries) == ([], 1)


@pytest.mark.parametrize("source", ["", "  ", None])
def test_an_entry_without_a_source(tmp_path: Path, source: str | None) -> None:
    entry = {key: value for key, value in {**MODEL, "source": source}.items() if value is not None}
    assert findings(site(tmp_path, **entry)) == [(NO_SOURCE, "models/tiny", "source")]


def test_a_field_without_a_source_is_named_with_why(tmp_path: Path) -> None:
    found, _ = check_catalog([site(tmp_path, **MODEL, unverified={"size_bytes": "computed"})], TODAY)
    assert [(one.kind, one.field, one.found) for one in found] == [(NO_SOURCE, "size_bytes", "no source: computed")]


@pytest.mark.parametrize(
    ("date", "days", "kind"),
    [
        ("2026-08-19", 90, None),
        ("2026-08-18", 90, OLD),
        ("2026-08-18", 91, None),
        (dt.date(2025, 1, 1), 90, OLD),
        ("2026-11-17", 0, None),
        ("2026-11-16", 0, OLD),
        ("2027-01-01", 90, NO_SOURCE),
        ("last week", 90, NO_SOURCE),
        (None, 90, NO_SOURCE),
    ],
)
def test_the_age_of_an_entry(tmp_path: Path, date: Any, days: int, kind: str | None) -> None:
    wanted = [] if kind is None else [(kind, "models/tiny", "date")]
    assert findings(site(tmp_path, **{**MODEL, "date": date}), days=days) == wanted


def test_what_a_run_must_be_given(tmp_path: Path) -> None:
    lacking = {key: value for key, value in MODEL.items() if key != "config"} | {"revision": None, "size_bytes": None}
    assert findings(site(tmp_path, **lacking)) == [
        (NEEDED, "models/tiny", "config"),
        (NEEDED, "models/tiny", "revision"),
        (NEEDED, "models/tiny", "size_bytes"),
    ]


STACK: dict[str, Any] = {
    "name": "own",
    "source": "made here",
    "date": "2026-11-01",
    "packages": {},
    "requires": {"vllm": "0.32.0"},
    "image": {"repository": "r/v", "digest": None, "size_bytes": 0},
}


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({}, ["image.digest", "image.size_bytes"]),
        ({"image": None, "runtime": "venv", "venv": {"path": "/v", "requirements": {}}}, ["venv.lock"]),
        (
            {
                "image": {"repository": "r/v", "digest": "sha256:1", "size_bytes": 7},
                "driver": {
                    "policy": "install",
                    "packages": {"a": "1", "b": None},
                    "fabric_manager": {"package": "f", "version": "1", "revision": None},
                },
            },
            ["driver.fabric_manager.revision", "driver.packages.b"],
        ),
        (
            {
                "image": {"repository": "r/v", "digest": "sha256:1", "size_bytes": 7},
                "driver": {"policy": "verify-and-hold", "packages": {"b": None}},
            },
            [],
        ),
    ],
)
def test_what_a_stack_must_have(tmp_path: Path, change: dict[str, Any], fields: list[str]) -> None:
    found = findings(site(tmp_path, "stacks", **{**STACK, **change}))
    assert found == [(NEEDED, "stacks/own", field) for field in fields]


def test_an_entry_of_a_site_replaces_one(tmp_path: Path) -> None:
    """What nobody reads is not looked at."""
    first, second = tmp_path / "first", tmp_path / "second"
    site(first, **MODEL)
    site(second, **{**MODEL, "revision": None})
    assert findings(second, first) == [(NEEDED, "models/tiny", "revision")]
    assert findings(first, second) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n- list\n", "it is not a mapping"),
        ("a: [", "it cannot be read"),
        (yaml.safe_dump({**MODEL, "sizes": 1}), "unknown field sizes"),
        (yaml.safe_dump({**MODEL, "size_bytes": -1}), "expected a whole number"),
    ],
)
def test_what_the_plan_would_refuse_is_told_with_the_rest(tmp_path: Path, text: str, words: str) -> None:
    site(tmp_path, **{**MODEL, "name": "other", "revision": None})
    (tmp_path / "models" / "tiny.yml").write_text(text, encoding="utf-8")
    found, entries = check_catalog([tmp_path], TODAY)
    assert entries == 2
    assert [(one.kind, one.entry) for one in found] == [(NEEDED, "models/other"), (UNREADABLE, "models/tiny")]
    assert words in found[1].found


def test_rules_engines_and_hazards_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "own.yml").write_text("date: '2026-11-01'\n", encoding="utf-8")
    (tmp_path / "engines" / "since").mkdir(parents=True)
    (tmp_path / "engines" / "x-1.json").write_text(json.dumps({"source": "s", "date": "2020-01-01"}), encoding="utf-8")
    (tmp_path / "engines" / "since" / "x.json").write_text("[]", encoding="utf-8")
    hazards = [{"name": "h", "source": "", "date": "2026-11-01"}, "x"]
    (tmp_path / "hazards.yml").write_text(yaml.safe_dump(hazards), encoding="utf-8")
    assert findings(tmp_path) == [
        (UNREADABLE, "engines/since/x", ""),
        (OLD, "engines/x-1", "date"),
        (UNREADABLE, "hazards/2", ""),
        (NO_SOURCE, "hazards/h", "source"),
        (NO_SOURCE, "rules/own", "source"),
    ]
    (tmp_path / "hazards.yml").write_text("a: 1\n", encoding="utf-8")
    assert (UNREADABLE, "hazards", "") in findings(tmp_path)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    (found,) = check_catalog([tmp_path / "none"], TODAY)[0]
    assert isinstance(found, Finding)
    assert (found.kind, found.found) == (UNREADABLE, "there is no such directory")


def test_every_need_is_a_field_of_its_kind() -> None:
    """A field that was renamed would be listed for every entry, or for none."""
    for kind, needs in NEEDS.items():
        for need in needs:
            fields: Any = SCHEMA[kind]
            for name in need.field.removesuffix(".*").split("."):
                assert name in fields, need.field
                fields = fields[name].fields or {}


def test_the_catalog_has_a_source_and_a_date_for_everything() -> None:
    """What is not known yet, and what no source backs, is listed by name; an entry without a source is not."""
    found, entries = check_catalog([BUILT_IN], dt.date(2099, 1, 1), days=100_000)
    assert entries > 40
    assert [one for one in found if one.kind in (UNREADABLE, OLD) or one.field in ("source", "date")] == []


def test_what_no_source_backs_is_a_field_of_its_entry() -> None:
    """One that was renamed or looked up since would be listed for ever."""
    for entries in load_catalog([BUILT_IN]).values():
        for entry in entries.values():
            for field in entry.get("unverified") or {}:
                part: Any = entry
                for name in field.split("."):
                    assert name in part, (entry["name"], field)
                    part = part[name]
