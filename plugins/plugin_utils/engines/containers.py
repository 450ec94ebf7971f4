# SPDX-License-Identifier: Apache-2.0
"""The privileges of engine containers: catalog/engines/containers.yml."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import container_expected_instead
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import Field
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.caches import load_document

FIELDS: dict[str, Field] = {
    "source": Field((str,)),
    "date": Field((str,)),
    "containers": Field(
        (list,),
        items={
            "engine": Field((str,)),
            "capabilities": Field((list,)),
            "writable": Field((list,)),
            "source": Field((str,)),
        },
    ),
}


def load_containers(directories: Iterable[str | Path]) -> dict[str, dict[str, Any]]:
    """Load what each engine's container may do; earlier catalog directories win. Raises CatalogError."""
    found: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for path in (Path(directory) / "containers.yml" for directory in directories):
        if not path.is_file():
            continue
        document, wrong = load_document(path, FIELDS)
        for entry in [] if wrong else document["containers"]:
            container = {name: entry[name] for name in ("capabilities", "writable")}
            if expected := container_expected_instead(container):
                wrong.append(f"catalog entry {path} has {container} for {entry['engine']}, expected {expected}")
            found.setdefault(str(entry["engine"]), container)
        problems += wrong
    if problems:
        raise CatalogError(problems)
    return found
