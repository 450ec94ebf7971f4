# SPDX-License-Identifier: Apache-2.0
"""Combinations that are known to fail in some versions of an engine: data, with where each is reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.core.versions import is_older, version_key
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.models.shape import ModelShape
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals

REFUSALS = {
    "hazard.known": (
        "A combination that is known to fail or to give wrong answers in these versions of the engine, as recorded in "
        "catalog/hazards.yml with its source."
    ),
}
_REQUIRED = ("name", "engine", "when", "found", "why", "remedy", "source", "date")
_OPTIONAL = ("from", "before", "note")
_CONDITIONS = ("expert_parallel", "experts", "quantization", "except_model_types")


def load_hazards(directories: Iterable[str | Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """The hazards of every directory's hazards.yml, the first of a name wins; and what is wrong with the files."""
    hazards: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for directory in directories:
        path = Path(directory) / "hazards.yml"
        if not path.is_file():
            continue
        try:
            listed = load_yaml(path)
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
            problems.append(f"{path} cannot be read: {' '.join(str(error).split())[:200]}")
            continue
        if not isinstance(listed, list):
            problems.append(f"{path} is no list of hazards: write it as in catalog/README.md")
            continue
        for number, entry in enumerate(listed):
            wrong = _wrong(entry)
            if wrong:
                problems.append(f"{path} item {number + 1}: {wrong}")
            else:
                hazards.setdefault(entry["name"], entry)
    return list(hazards.values()), problems


def _wrong(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return "expected a mapping"
    missing = [key for key in _REQUIRED if key not in entry]
    unknown = [str(key) for key in entry if key not in (*_REQUIRED, *_OPTIONAL)]
    if missing:
        return f"lacks {', '.join(missing)}"
    if unknown:
        return f"has unknown fields {', '.join(unknown)}"
    when = entry["when"]
    if not isinstance(when, dict) or not when or any(key not in _CONDITIONS for key in when):
        return f"when is a mapping of {', '.join(_CONDITIONS)}"
    if any(not isinstance(when.get(key, []), list) for key in ("quantization", "except_model_types")):
        return "when.quantization and when.except_model_types are lists"
    texts = (*_REQUIRED[:2], *_REQUIRED[3:-1], "from", "before")
    for key in texts:
        if not isinstance(entry.get(key, ""), (str, type(None))):
            return f"{key} is text"
    return None


def check_hazards(
    shape: ModelShape,
    hazards: Sequence[Mapping[str, Any]],
    engine: str,
    version: str | None,
    expert_parallel: bool,
    refusals: Refusals,
) -> None:
    """Refuse what is known to fail in this version of the engine; without a version, in any."""
    for hazard in hazards:
        when = hazard["when"]
        if hazard["engine"] != engine or not _in_range(version, hazard.get("from"), hazard.get("before")):
            continue
        if "expert_parallel" in when and when["expert_parallel"] != expert_parallel:
            continue
        if "experts" in when and when["experts"] != (shape.experts is not None):
            continue
        methods = when.get("quantization")
        if methods and shape.quantization.method not in methods:
            continue
        if shape.model_type in when.get("except_model_types", ()):
            continue
        refusals.add(
            "hazard.known",
            f"{hazard['name']}: {hazard['found']} ({engine} {version or 'of any version'}, {shape.name})",
            hazard["why"],
            hazard["remedy"],
        )


def _in_range(version: str | None, first: str | None, before: str | None) -> bool:
    """A version that cannot be read is in every range, as is none: better a hazard too many than one overlooked."""
    if version_key(version) is None:
        return True
    return not is_older(version, first) and (before is None or is_older(version, before))
