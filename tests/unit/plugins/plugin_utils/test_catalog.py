# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import (
    SCHEMA,
    CatalogError,
    load_catalog,
)

ROOT = Path(__file__).parents[4]
MODEL: dict[str, Any] = {
    "name": "tiny",
    "source": "made here",
    "date": "2026-01-01",
    "repository": "a/b",
    "revision": None,
}


def write(directory: Path, kind: str, name: str, content: object) -> Path:
    path = directory / kind / f"{name}.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return directory


def problems(directory: Path) -> list[str]:
    with pytest.raises(CatalogError) as caught:
        load_catalog([directory])
    return caught.value.problems


def test_the_built_in_catalog_is_valid() -> None:
    catalog = load_catalog([ROOT / "catalog"])
    assert {kind: len(entries) > 0 for kind, entries in catalog.items()} == dict.fromkeys(SCHEMA, True)
    assert catalog["hardware"]["gb10"]["gpu_name"] == "NVIDIA GB10"
    assert all(0 < one["utilisation_ceiling"] <= 1 for one in catalog["hardware"].values())


def test_the_earlier_directory_wins(tmp_path: Path) -> None:
    site = write(tmp_path / "site", "models", "tiny", {**MODEL, "repository": "site/tiny"})
    other = write(tmp_path / "other", "models", "tiny", MODEL)
    write(other, "models", "more", {**MODEL, "name": "more"})
    models = load_catalog([site, other])["models"]
    assert models["tiny"]["repository"] == "site/tiny"
    assert set(models) == {"tiny", "more"}


def test_files_beside_the_kinds_are_ignored(tmp_path: Path) -> None:
    write(tmp_path, "models", "tiny", MODEL)
    (tmp_path / "extras.yml").write_text("anything: [")
    assert set(load_catalog([tmp_path])["models"]) == {"tiny"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [", "cannot be read"),
        ("- a\n", "not a mapping"),
        ("", "not a mapping"),
        ({**MODEL, "revison": "x"}, "unknown field revison"),
        ({key: value for key, value in MODEL.items() if key != "source"}, "lacks source: add it (text)"),
        ({**MODEL, "revision": 5}, "revision: 5, expected text or null"),
        ({**MODEL, "size_bytes": True}, "size_bytes: True, expected a whole number of at least 1 or null"),
        ({**MODEL, "name": "other"}, "name 'other', expected 'tiny'"),
    ],
)
def test_a_wrong_entry_is_named_with_its_file(tmp_path: Path, content: object, words: str) -> None:
    (problem,) = problems(write(tmp_path, "models", "tiny", content))
    assert words in problem
    assert str(tmp_path / "models" / "tiny.yml") in problem


def test_nested_fields_and_items_are_checked(tmp_path: Path) -> None:
    gb10 = yaml.safe_load((ROOT / "catalog/hardware/gb10.yml").read_text())
    gb10["fabric"] = {"rdma": "yes", "ports": ["enp1", {"prot": "enp1"}]}
    found = problems(write(tmp_path, "hardware", "gb10", gb10))
    assert len(found) == 4
    assert any("fabric.rdma: 'yes', expected true or false" in one for one in found)
    assert any("fabric.ports[0]: 'enp1', expected a mapping" in one for one in found)
    assert any("unknown field fabric.ports[1].prot" in one for one in found)


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    write(tmp_path, "models", "one", "[")
    write(tmp_path, "stacks", "two", {})
    with pytest.raises(CatalogError) as caught:
        load_catalog([tmp_path / "missing", tmp_path])
    text = str(caught.value)
    assert "missing does not exist: correct firstlight_catalog" in text
    assert "one.yml" in text
    assert "two.yml lacks image" in text
