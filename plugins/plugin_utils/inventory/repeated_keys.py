# SPDX-License-Identifier: Apache-2.0
"""Detect duplicate keys in mappings of an inventory: YAML takes the last one, and Ansible only warns.

Ansible can be configured to fail, but then also fails for a key that overrides one of a merged anchor (`<<: *base`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors

ERRORS = {
    "inventory.repeated": "If a key occurs twice in one mapping, YAML takes the last and drops the first.",
}

_SUFFIXES = (".yml", ".yaml")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_repeated_keys(sources: Iterable[str], errors: PlanErrors) -> None:
    """Add an error with file and lines for each duplicate key; unreadable files are left to other checks."""
    for path in dict.fromkeys(_files(sources)):
        try:
            document = yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER)
        except (OSError, ValueError, yaml.YAMLError):
            continue
        for key, first, again in _repeated(document):
            errors.add(
                "inventory.repeated",
                f"{path} has {key!r} twice in one mapping, in line {first} and in line {again}",
                "a key occurs in a mapping once",
                "remove one of the two, or put both values under one",
            )


def _files(sources: Iterable[str]) -> Iterator[Path]:
    for source in (Path(source) for source in sources if "," not in source):
        directory = source if source.is_dir() else source.parent
        listed = sorted(source.iterdir()) if source.is_dir() else [source]
        for name in ("group_vars", "host_vars"):
            listed += sorted((directory / name).rglob("*"))
        yield from (path for path in listed if path.suffix in _SUFFIXES and path.is_file())


def _repeated(document: yaml.Node | None) -> Iterator[tuple[str, int, int]]:
    """Yield each duplicate key with both lines; nodes shared by aliases are visited once."""
    nodes, seen = [document], set[int]()
    while nodes:
        node = nodes.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                nodes.append(value)
                if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                    continue
                line = key.start_mark.line + 1
                if key.value in lines:
                    yield key.value, lines[key.value], line
                lines[key.value] = line
