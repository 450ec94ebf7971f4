# SPDX-License-Identifier: Apache-2.0
"""The meaningful values of well-known numbers, whatever the engine: catalog/engines/ranges.yml.

An engine's parser takes any whole number for a port or for the GPUs of a group; the engine ends later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import Field, Range
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError, check_fields
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml

FIELDS: dict[str, Field] = {
    "source": Field((str,)),
    "date": Field((str,)),
    "ranges": Field(
        (list,),
        items={
            "flags": Field((list,)),
            "least": Field((int, float), required=False),
            "above": Field((int, float), required=False),
            "most": Field((int, float), required=False),
            "also": Field((int,), required=False),
            "source": Field((str,)),
        },
    ),
}


@dataclass(frozen=True)
class Meaningful:
    """The meaningful values of a flag's number."""

    range: Range
    also: int | None
    """An additional number with a meaning of its own, such as -1 for automatic."""

    def __contains__(self, number: float) -> bool:
        return number == self.also or number in self.range

    @property
    def words(self) -> str:
        return self.range.words + ("" if self.also is None else f", or {self.also}")


def plain(name: str) -> str:
    """Normalise a flag's name as this table does: engines differ in dashes and underscores."""
    return name.replace("_", "-")


def load_ranges(directories: Iterable[str | Path]) -> dict[str, Meaningful]:
    """Load the meaningful numbers of each flag, by its name. Raises CatalogError with all problems."""
    found: dict[str, Meaningful] = {}
    problems: list[str] = []
    for path in (Path(directory) / "ranges.yml" for directory in directories):
        if not path.is_file():
            continue
        document, wrong = _load(path)
        problems += wrong
        for entry in [] if wrong else document["ranges"]:
            bounds = Range(entry.get("least"), entry.get("most"), entry.get("above"))
            for name in entry["flags"]:
                found.setdefault(plain(str(name)), Meaningful(bounds, entry.get("also")))
    if problems:
        raise CatalogError(problems)
    return found


def _load(path: Path) -> tuple[Mapping[str, Any], list[str]]:
    try:
        document = load_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        return {}, [f"catalog entry {path} cannot be read: {' '.join(str(error).split())}"]
    if not isinstance(document, dict):
        return {}, [f"catalog entry {path} is not a mapping: write its fields as in catalog/engines/ranges.yml"]
    return document, check_fields(document, FIELDS, str(path), "")
