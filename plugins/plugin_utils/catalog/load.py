# SPDX-License-Identifier: Apache-2.0
"""Load the catalog: data files about hardware, stacks, models, sources and recipes (catalog/README.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog import (
    hardware,
    models,
    recipes,
    sources,
    stacks,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import Field
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml

BUILT_IN = Path(__file__).absolute().parents[3] / "catalog"
"""The collection's own catalog; symlinks are not resolved, so that linked and installed copies behave alike."""

Entry = dict[str, Any]
Catalog = dict[str, dict[str, Entry]]
"""Kind of entry -> name -> entry."""


class CatalogError(ValueError):
    """All problems of the catalog files, one per line."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


SCHEMA: dict[str, dict[str, Field]] = {
    "hardware": hardware.FIELDS,
    "stacks": stacks.FIELDS,
    "models": models.FIELDS,
    "sources": sources.FIELDS,
    "recipes": recipes.FIELDS,
}
"""Fields of each kind of entry; any other field is rejected as a misspelling."""


def load_catalog(directories: Iterable[str | Path]) -> Catalog:
    """Load every entry under these directories; if two define the same name, the earlier directory wins.

    Raises CatalogError with all problems at once.
    """
    catalog: Catalog = {kind: {} for kind in SCHEMA}
    problems: list[str] = []
    for directory in map(Path, directories):
        if not directory.is_dir():
            problems.append(
                f"catalog directory {directory} does not exist: correct firstlight_catalog, or create it "
                f"with {', '.join(sorted(SCHEMA))} below it"
            )
            continue
        for kind in SCHEMA:
            for path in sorted((directory / kind).glob("*.yml")):
                entry, wrong = _load_entry(path, kind)
                problems += wrong
                if not wrong:
                    catalog[kind].setdefault(path.stem, entry)
    if problems:
        raise CatalogError(problems)
    return catalog


def _load_entry(path: Path, kind: str) -> tuple[Entry, list[str]]:
    try:
        entry = load_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        return {}, [f"catalog entry {path} cannot be read: {' '.join(str(error).split())}"]
    if not isinstance(entry, dict):
        return {}, [f"catalog entry {path} is not a mapping: write its fields as in catalog/README.md"]
    problems = check_fields(entry, SCHEMA[kind], str(path), "")
    if not problems and entry["name"] != path.stem:
        problems.append(
            f"catalog entry {path} has the name {entry['name']!r}, expected {path.stem!r}, the name of its file"
        )
    return entry, problems


def check_fields(entry: Mapping[str, Any], schema: Mapping[str, Field], path: str, prefix: str) -> list[str]:
    where = f"catalog entry {path}"
    problems = [
        f"{where} has an unknown field {prefix}{key}: correct it to one of {', '.join(sorted(schema))}"
        for key in entry
        if key not in schema
    ]
    for name, field in schema.items():
        if name not in entry:
            if field.required:
                problems.append(f"{where} lacks {prefix}{name}: add it ({field.words})")
            continue
        value: Any = entry[name]
        if not _has_type(value, field.types):
            problems.append(f"{where} has {prefix}{name}: {value!r}, expected {field.words}")
        elif field.range is not None and value is not None and value not in field.range:
            problems.append(f"{where} has {prefix}{name}: {_number(value)}, expected {field.words}")
        elif field.choices and value not in field.choices:
            problems.append(f"{where} has {prefix}{name}: {value!r}, expected {field.words}")
        elif field.values is not None and value is not None:
            own = dict.fromkeys(value, field.values)
            problems += check_fields(value, own, path, f"{prefix}{name}.")
        elif field.fields is not None and value is not None:
            problems += check_fields(value, field.fields, path, f"{prefix}{name}.")
        elif field.items is not None:
            for number, item in enumerate(value):
                place = f"{prefix}{name}[{number}]"
                if isinstance(item, dict):
                    problems += check_fields(item, field.items, path, f"{place}.")
                else:
                    problems.append(f"{where} has {place}: {item!r}, expected a mapping")
    return problems


def _number(value: float) -> str:
    """Render a number readably, however long it is."""
    return "too long a number" if isinstance(value, int) and abs(value) >= 10**18 else repr(value)


def _has_type(value: Any, types: tuple[type, ...]) -> bool:
    """Like isinstance(), but true and false do not count as numbers."""
    return bool in types if isinstance(value, bool) else isinstance(value, types)
