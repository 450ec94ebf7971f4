# SPDX-License-Identifier: Apache-2.0
"""Flags and variables that guides still name and a pinned engine does not know (catalog/engines/replaced.yml)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import NULL, Field
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError, check_fields
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml

FIELDS: dict[str, Field] = {
    "source": Field((str,)),
    "date": Field((str,)),
    "flags": Field(
        (list,),
        items={
            "engine": Field((str,)),
            "flag": Field((str,)),
            "value": Field((str,), required=False),
            "meaning": Field((str,)),
            "replacement": Field((str, NULL)),
            "see": Field((str,), required=False),
            "since": Field((str, NULL)),
            "until": Field((str, NULL)),
            "source": Field((str,)),
        },
    ),
    "programs": Field(
        (list,),
        required=False,
        items={
            "engine": Field((str,)),
            "program": Field((str,)),
            "meaning": Field((str,)),
            "source": Field((str,)),
        },
    ),
    "environment": Field(
        (list,),
        items={
            "engine": Field((str, NULL)),
            "variable": Field((str,)),
            "meaning": Field((str,)),
            "replacement": Field((str, NULL)),
            "since": Field((str, NULL)),
            "until": Field((str, NULL)),
            "source": Field((str,)),
        },
    ),
    "words": Field((dict,)),
}


@dataclass(frozen=True)
class Replaced:
    """Flags, variables and programs that an engine no longer has, or never had."""

    flags: tuple[Mapping[str, Any], ...] = ()
    environment: tuple[Mapping[str, Any], ...] = ()
    words: Mapping[str, tuple[str, ...]] | None = None
    """The meaning of parts of flag names in the engines' vocabulary: tp -> tensor, parallel, size."""
    programs: tuple[Mapping[str, Any], ...] = ()
    """Programs of an engine that are not its server."""

    def program(self, engine: str, name: str) -> Mapping[str, Any] | None:
        """Return the entry of a program that guides start, but that is not the engine's server."""
        return next((entry for entry in self.programs if (entry["engine"], entry["program"]) == (engine, name)), None)

    def flag(self, engine: str, name: str) -> Mapping[str, Any] | None:
        """Return the entry of a flag that an engine does not know."""
        return self._find(engine, name, None)

    def value(self, engine: str, name: str, value: str) -> Mapping[str, Any] | None:
        """Return the entry of a flag's value that is refused, or accepted with an unexpected meaning."""
        return self._find(engine, name, value)

    def _find(self, engine: str, name: str, value: str | None) -> Mapping[str, Any] | None:
        wanted = name.replace("_", "-")
        for entry in self.flags:
            same = entry["engine"] == engine and str(entry["flag"]).replace("_", "-") == wanted
            if same and entry.get("value") == value:
                return entry
        return None


def load_replaced(directories: Iterable[str | Path]) -> Replaced:
    """Load every entry of every directory, earlier directories first. Raises CatalogError with all problems."""
    flags: list[Mapping[str, Any]] = []
    environment: list[Mapping[str, Any]] = []
    words: dict[str, tuple[str, ...]] = {}
    programs: list[Mapping[str, Any]] = []
    problems: list[str] = []
    for directory in map(Path, directories):
        path = directory / "replaced.yml"
        if not path.is_file():
            continue
        document, wrong = _load(path)
        problems += wrong
        if not wrong:
            flags += document["flags"]
            environment += document["environment"]
            programs += document.get("programs") or []
            for word, meaning in document["words"].items():
                words.setdefault(str(word), tuple(str(meaning).split()))
    if problems:
        raise CatalogError(problems)
    return Replaced(tuple(flags), tuple(environment), words, tuple(programs))


def _load(path: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        document = load_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        return {}, [f"catalog entry {path} cannot be read: {' '.join(str(error).split())}"]
    if not isinstance(document, dict):
        return {}, [f"catalog entry {path} is not a mapping: write its fields as in catalog/engines/replaced.yml"]
    return document, check_fields(document, FIELDS, str(path), "")
