# SPDX-License-Identifier: Apache-2.0
"""Build packages from the tables in data/: every release of every set, for every architecture.

`packages.json` has the packages that the lab's nodes run; `published.json` has those known to be in the vendors'
repositories, with names, versions and relations as published, and the evidence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .deb import Entry, Package

HERE = Path(__file__).resolve().parent
TABLE = HERE / "data" / "packages.json"
PUBLISHED = HERE / "data" / "published.json"
VENDOR, CUDA, ARCHIVE, DOCKER, LAMBDA = "nvidia", "cuda", "archive", "docker", "lambda"
"""The names of the apt repositories.

These are, in order, those of NVIDIA's own systems, NVIDIA's CUDA, the distribution's archive, Docker, and a cloud
provider whose machines come with its own driver packages.
"""


def load_packages(repository: str = VENDOR) -> list[Package]:
    """Return all stub packages of a repository."""
    document, published = (json.loads(table.read_text(encoding="utf-8")) for table in (TABLE, PUBLISHED))
    templates = document["packages"] | published["packages"]
    return [
        _package(document, template, variables, architecture)
        for listed in [*document["sets"], *published["sets"]]
        if listed.get("repository", VENDOR) == repository
        for release in listed["releases"]
        for variables in [_variables(release, listed.get("variables", {}))]
        for template in templates[listed["packages"]]
        for architecture in document["architectures"]
    ]


def sources() -> Iterator[Path]:
    """Yield every file that affects the content of the packages, for the fingerprint of a build."""
    for folder in ("data", "node", "programs"):
        yield from sorted(path for path in (HERE / folder).rglob("*") if path.is_file() and path.suffix != ".pyc")
    yield from (HERE / name for name in ("deb.py", "packages.py", "repository.py"))


def _variables(release: Mapping[str, str], derived: Mapping[str, str]) -> dict[str, str]:
    return {**release, **{name: template.format(**release) for name, template in derived.items()}}


def _package(
    document: Mapping[str, Any], template: Mapping[str, Any], variables: Mapping[str, str], architecture: str
) -> Package:
    entries: dict[str, Entry] = {}
    for group in template.get("contents", []):
        for path, source in document["files"][group].items():
            entries.update(_entries(path.format(**variables), source, variables))
    return Package(
        name=template["name"].format(**variables),
        version=template.get("version", "{version}").format(**variables),
        architecture=architecture,
        summary=template["summary"].format(**variables),
        maintainer=document["maintainer"],
        section=template.get("section", "restricted/utils"),
        depends=[name.format(**variables) for name in template.get("depends", [])],
        provides=[name.format(**variables) for name in template.get("provides", [])],
        conflicts=template.get("conflicts", []),
        exclusive=template.get("exclusive", "").format(**variables),
        entries=entries,
        scripts={name: (HERE / path).read_bytes() for name, path in template.get("scripts", {}).items()},
    )


def _entries(path: str, source: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Entry]:
    """Return the files described by one row of the table."""
    mode = int(source.get("mode", "0644"), 8)
    if "link" in source:
        return {path: Entry(link=source["link"])}
    if "tree" in source:
        folder = HERE / source["tree"]
        found = sorted(folder.rglob(f"*{source['ending']}"))
        return {f"{path}/{item.relative_to(folder).as_posix()}": Entry(item.read_bytes(), mode) for item in found}
    if "from" in source:
        return {path: Entry((HERE / source["from"]).read_bytes(), mode)}
    text = source["text"].format(**variables) if "text" in source else _json(source["json"], variables)
    return {path: Entry(text.encode(), mode)}


def _json(document: Any, variables: Mapping[str, str]) -> str:
    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: fill(inner) for key, inner in value.items()}
        return value.format(**variables)

    return json.dumps(fill(document), sort_keys=True) + "\n"
