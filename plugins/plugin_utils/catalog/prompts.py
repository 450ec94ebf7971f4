# SPDX-License-Identifier: Apache-2.0
"""The prompts of the quality check and the allowed deviation of the answers (catalog/README.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import COMMON, Field, Range
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError, check_fields
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml

FILE = "quality.yml"
ENGINE, PRECISION = "engine", "precision"
KINDS = (ENGINE, PRECISION)
"""Kinds of change between two sets of answers: only engine, driver or settings, or the numeric precision."""
MEASURES = ("exact_match", "token_agreement", "bleu", "rouge_l")

_SHARE = Field((int, float), range=Range(least=0, most=1))
_LIMITS = Field((dict,), fields=dict.fromkeys(MEASURES, _SHARE))
PROMPT = {
    "id": Field((str,)),
    "prompt": Field((str,)),
    "max_tokens": Field((int,), range=Range(least=1, most=4096)),
    "expected": Field((str,), required=False),
}
FIELDS: dict[str, Field] = {
    **COMMON,
    "limits": Field((dict,), fields=dict.fromkeys(KINDS, _LIMITS)),
    "prompts": Field((list,), items=PROMPT),
}


@dataclass(frozen=True)
class Prompts:
    """The fixed prompts and the limits for each kind of change."""

    prompts: tuple[Mapping[str, Any], ...]
    limits: Mapping[str, Mapping[str, float]]

    @property
    def sha256(self) -> str:
        """Digest by which two sets of answers are recognised as answers to the same prompts."""
        asked = [[one["id"], one["prompt"], one["max_tokens"], one.get("expected")] for one in self.prompts]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def load_prompts(directories: Iterable[str | Path]) -> Prompts:
    """Load the first quality.yml of these directories, without merging. Raises CatalogError with all problems."""
    path = next((one for one in (Path(place) / FILE for place in directories) if one.is_file()), None)
    if path is None:
        raise CatalogError([f"no catalog has a {FILE}: list the built-in one last in firstlight_catalog"])
    try:
        entry = load_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise CatalogError([f"{path} cannot be read: {' '.join(str(error).split())[:200]}"]) from error
    problems = check_prompts(entry, str(path))
    if problems:
        raise CatalogError(problems)
    return Prompts(tuple(entry["prompts"]), entry["limits"])


def check_prompts(entry: object, where: str) -> list[str]:
    """Return the problems of the content of a quality.yml."""
    if not isinstance(entry, dict):
        return [f"{where} is not a mapping: write it as in catalog/README.md"]
    problems = check_fields(entry, FIELDS, where, "")
    if problems:
        return problems
    names = [one["id"] for one in entry["prompts"]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names:
        problems.append(f"{where} has no prompts: add some, or leave the file out for the built-in ones")
    if twice:
        problems.append(f"{where} has {', '.join(twice)} twice: every prompt needs an id of its own")
    return problems
