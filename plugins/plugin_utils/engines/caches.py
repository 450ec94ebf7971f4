# SPDX-License-Identifier: Apache-2.0
"""The compile caches of engines: catalog/engines/caches.yml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import Field
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError, check_fields
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml

FIELDS: dict[str, Field] = {
    "source": Field((str,)),
    "date": Field((str,)),
    "caches": Field(
        (list,),
        items={
            "variable": Field((str,)),
            "directory": Field((str,)),
            "engines": Field((list,)),
            "holds": Field((str,)),
            "source": Field((str,)),
        },
    ),
}


def load_caches(directories: Iterable[str | Path]) -> dict[str, dict[str, str]]:
    """Load each engine's cache variables, with their places below one directory; earlier catalog directories win.

    Raises CatalogError with all problems.
    """
    found: dict[str, dict[str, str]] = {}
    problems: list[str] = []
    for path in (Path(directory) / "caches.yml" for directory in directories):
        if not path.is_file():
            continue
        document, wrong = load_document(path, FIELDS)
        problems += wrong
        for entry in [] if wrong else document["caches"]:
            for engine in entry["engines"]:
                found.setdefault(str(engine), {}).setdefault(entry["variable"], entry["directory"])
    if problems:
        raise CatalogError(problems)
    return found


def load_document(path: Path, fields: Mapping[str, Field]) -> tuple[Mapping[str, Any], list[str]]:
    """Load a catalog file next to the engines' flags; return it with the problems found."""
    try:
        document = load_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        return {}, [f"catalog entry {path} cannot be read: {' '.join(str(error).split())}"]
    if not isinstance(document, dict):
        return {}, [f"catalog entry {path} is not a mapping: write its fields as in catalog/engines/{path.name}"]
    return document, check_fields(document, fields, str(path), "")
