# SPDX-License-Identifier: Apache-2.0
"""Select the files of a model's repository to fetch: what the engine loads, by the rules of the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.versions import is_older
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.flags import flag_name

RULES = BUILT_IN / "rules" / "model_files.yml"
USUAL = "auto"
LISTS = ("include", "exclude")
"""Keys with which a model's entry and the intent select files: patterns of paths."""


@dataclass(frozen=True)
class Rules:
    """The rules of the catalog, as they are written there."""

    formats: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    weights: Sequence[str] = ()
    exclude: Sequence[str] = ()
    engines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def formats_of(self, engine: str, version: str | None, load_format: str) -> list[str] | None:
        """Return the formats an engine looks for, the preferred one first; None if unknown."""
        known = self.engines.get(engine) or {}
        found = (known.get("load_formats") or {}).get(load_format)
        older = (
            changed[load_format]
            for before, changed in (known.get("before") or {}).items()
            if load_format in changed and is_older(version, str(before))
        )
        found = next(older, found)
        return None if found is None else list(found)


@lru_cache(maxsize=8)
def load_rules(path: Path = RULES) -> Rules:
    """Load the rules of this collection's catalog."""
    found = load_yaml(path)
    return Rules(found["formats"], found["weights"], found["exclude"], found["engines"])


def load_format_of(
    rules: Rules, engine: str, flags: Sequence[str], settings: Mapping[str, Any] | None = None
) -> str | None:
    """Return the load format that flags or settings give an engine; None leaves the choice to the engine."""
    known = rules.engines.get(engine) or {}
    found = (settings or {}).get(known.get("setting") or "")
    for number, word in enumerate(flags):
        if known.get("flag") and flag_name(word) == known["flag"]:
            _, equals, value = word.partition("=")
            found = value if equals else (*flags[number + 1 :], "")[0]
    return str(found).strip().lower() if found else None


def selection(
    rules: Rules,
    engine: str,
    version: str | None,
    load_format: str | None,
    model: Mapping[str, Any] | None = None,
    intent: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the selection of files for role model_weights; an empty one fetches all of them.

    `model` and `intent` are the selections of the model's entry and the inventory; a list of the inventory replaces the
    entry's.
    """
    own = {**_lists(model), **_lists(intent)}
    names = rules.formats_of(engine, version, load_format or USUAL)
    found: dict[str, Any] = {}
    if names is not None:
        formats = [{"name": name, **rules.formats[name]} for name in names]
        found = {"formats": formats, "weights": list(rules.weights), "exclude": list(rules.exclude)}
    exclude = [*found.get("exclude", []), *own.get("exclude", [])]
    return found | {key: value for key, value in (("exclude", exclude), ("include", own.get("include"))) if value}


def _lists(given: object) -> dict[str, list[str]]:
    """Return the given patterns; invalid ones were refused where they were read."""
    lists = given if isinstance(given, Mapping) else {}
    return {
        key: [one for one in lists[key] if isinstance(one, str) and one]
        for key in LISTS
        if isinstance(lists.get(key), list)
    }


def unknown_load_format(rules: Rules, engine: str, version: str | None, load_format: str | None) -> str | None:
    """Return a message if it is unknown which files are loaded."""
    asked = load_format or USUAL
    if rules.formats_of(engine, version, asked) is not None:
        return None
    return (
        f"the files that {engine} loads with load format {asked} are not known, so every file of the repository "
        "is downloaded: leave some out with firstlight_model_files.exclude"
    )
