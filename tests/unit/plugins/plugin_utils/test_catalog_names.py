# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import find_entry

MODELS = load_catalog([Path(__file__).parents[4] / "catalog"])["models"]
ENTRIES: dict[str, dict[str, Any]] = {
    "one-7b": {"name": "one-7b", "aliases": ["Org/One", 7], "note": "One is the small one."},
    "two-9b": {"name": "two-9b", "aliases": ["one-7b", "TWO"]},
    "three": {"name": "three"},
}


@pytest.mark.parametrize(
    ("name", "found", "note"),
    [
        ("one-7b", "one-7b", None),
        ("ONE-7B", "one-7b", None),
        ("org/one", "one-7b", "org/one is one-7b in the catalog: One is the small one."),
        ("7", "one-7b", "7 is one-7b in the catalog: One is the small one."),
        ("two", "two-9b", "two is two-9b in the catalog."),
        ("three", "three", None),
    ],
)
def test_an_entry_is_found_by_its_name_before_another_name(name: str, found: str, note: str | None) -> None:
    entry, said = find_entry(ENTRIES, name)
    assert entry is ENTRIES[found]
    assert said == note


def test_a_name_that_nobody_has_finds_nothing() -> None:
    assert find_entry(ENTRIES, "four") == (None, None)
    assert find_entry({}, "") == (None, None)


def test_no_name_of_the_built_in_catalog_means_two_models() -> None:
    names = [{str(one).lower() for one in (entry["name"], *(entry.get("aliases") or ()))} for entry in MODELS.values()]
    assert sum(map(len, names)) == len(set().union(*names))
