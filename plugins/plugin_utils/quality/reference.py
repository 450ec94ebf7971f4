# SPDX-License-Identifier: Apache-2.0
"""Store accepted answers on the controller, and find the reference for a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.quality.assessment import FORMAT

DIRECTORY = "quality"
ANSWERS, REFERENCES = "answers", "references"

Document = dict[str, Any]


def reference_path(directory: Path, configuration: Mapping[str, Any]) -> Path:
    """Return the path of the reference for a model at a revision; accepting new answers replaces the file."""
    named = f"{configuration['model']}@{configuration.get('revision') or 'none'}"
    return directory / REFERENCES / f"{named.replace('/', '_')}.json"


def read_answers(path: Path) -> Document | None:
    """Read a document of answers; None if the file is missing or is not one."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    right = (
        isinstance(document, dict) and document.get("format") == FORMAT and isinstance(document.get("answers"), list)
    )
    return document if right else None


def find_reference(directory: Path, configuration: Mapping[str, Any], related: Iterable[str] = ()) -> Document | None:
    """Return the reference of this model and revision, else the newest of another revision or of a related model.

    `related` names the same model in other precisions.
    """
    own = read_answers(reference_path(directory, configuration))
    if own is not None:
        return own
    stored = [
        one for path in sorted((directory / REFERENCES).glob("*.json")) if (one := read_answers(path)) is not None
    ]
    stored.sort(key=lambda one: str(one.get("asked")), reverse=True)
    for names in ({str(configuration["model"])}, set(related)):
        found = next((one for one in stored if (one.get("configuration") or {}).get("model") in names), None)
        if found is not None:
            return found
    return None


def related_models(directories: Iterable[str | Path], model: str) -> list[str]:
    """Return the catalog's entries of the same model in other precisions, related by their field `base`."""
    bases: dict[str, str] = {}
    for path in (path for directory in directories for path in sorted((Path(directory) / "models").glob("*.yml"))):
        try:
            entry = load_yaml(path)
        except (OSError, ValueError, yaml.YAMLError):
            continue
        if isinstance(entry, Mapping):
            bases.setdefault(path.stem, str(entry.get("base") or path.stem))
    base = bases.get(model, model)
    return sorted(name for name, one in bases.items() if name != model and base in (one, name))
