# SPDX-License-Identifier: Apache-2.0
"""Which keys the settings file of a pinned engine takes, as data: catalog/engines/settings/, by scripts.schemas.

Only TensorRT-LLM has such a file (`trtllm-serve --config`); of the other engines everything is a flag.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError

DIRECTORY = "settings"
LARGEST = 8 << 20  # bytes; the largest real one has 0.04 MB
KINDS = frozenset({"int", "float", "str", "bool", "null", "any", "map"})


@dataclass(frozen=True)
class Key:
    """One key; the fields are those of the file (docs/engines.md says what each means)."""

    takes: tuple[Any, ...]
    above: float | None
    required: bool
    status: str | None


@dataclass(frozen=True)
class SettingsSchema:
    """All keys of the settings file of one engine version, by the object they belong to."""

    engine: str
    version: str
    root: str
    objects: Mapping[str, Mapping[str, Key]]

    @property
    def title(self) -> str:
        return f"{self.engine} {self.version}"


def load_settings(directories: Iterable[str | Path], engine: str, version: str) -> SettingsSchema | None:
    """The keys of an engine version, None when the catalog has none. Raises CatalogError for a broken file."""
    for directory in map(Path, directories):
        path = directory / DIRECTORY / f"{engine}-{version}.json"
        if path.is_file():
            return parse_settings(_read(path), str(path))
    return None


def _read(path: Path) -> Any:
    try:
        if path.stat().st_size > LARGEST:
            raise CatalogError([f"settings schema {path} is larger than {LARGEST} bytes: generate it again"])
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, CatalogError):
            raise
        raise CatalogError([f"settings schema {path} cannot be read: {error}; generate it again"]) from error


def parse_settings(document: Any, path: str) -> SettingsSchema:
    """A schema from its document. Raises CatalogError with what is wrong."""
    problem = _problem(document)
    if problem is not None:
        raise CatalogError([f"settings schema {path} {problem}: generate it again"])
    return SettingsSchema(
        engine=document["engine"],
        version=document["version"],
        root=document["root"],
        objects={
            name: {
                key: Key(tuple(one["takes"]), one.get("above"), bool(one.get("required")), one.get("status"))
                for key, one in content["keys"].items()
            }
            for name, content in document["objects"].items()
        },
    )


def _problem(document: Any) -> str | None:
    if not isinstance(document, dict):
        return "is not a JSON object"
    for key in ("engine", "version", "root"):
        if not isinstance(document.get(key), str):
            return f"lacks the text {key}"
    objects = document.get("objects")
    if not isinstance(objects, dict) or document["root"] not in objects:
        return "lacks objects, or the one that root names"
    for name, content in objects.items():
        keys = content.get("keys") if isinstance(content, dict) else None
        if not isinstance(keys, dict):
            return f"has {name} without keys"
        for key, one in keys.items():
            if not isinstance(one, dict) or not isinstance(one.get("takes"), list):
                return f"has {name}.{key} without what it takes"
            if not all(_is_kind(kind, objects) for kind in one["takes"]):
                return f"has {name}.{key} with a kind that is not known"
    return None


def _is_kind(kind: Any, objects: Mapping[str, Any]) -> bool:
    match kind:
        case str():
            return kind in KINDS
        case {"words": list(words)}:
            return bool(words)
        case {"list": list(inner)} | {"map": list(inner)}:
            return all(_is_kind(one, objects) for one in inner)
        case {"object": str(name)}:
            return name in objects
        case {"chosen_by": str(), "of": dict(choice)}:
            return bool(choice) and all(name in objects for name in choice.values())
    return False
