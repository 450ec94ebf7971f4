# SPDX-License-Identifier: Apache-2.0
"""Find the model of an intent: a catalog entry, an alias of one, or any repository with its config.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.text import is_hexadecimal
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub import COMMIT_LENGTH
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import find_entry, suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.files import refuse_gguf

ERRORS = {
    "model.unknown": "A model is defined by its config.json: from the catalog, or from you.",
    "model.revision": "A branch moves; only a commit defines which bytes every host must have.",
}

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")

REVISION_TO_SUPPLY = "REVISION-TO-SUPPLY"
"""Placeholder in a plan for a commit that only the operator knows; nothing is run with it."""


def find_model(
    models: Mapping[str, Mapping[str, Any]], name: object, config: Mapping[str, Any] | None, errors: PlanErrors
) -> tuple[Mapping[str, Any] | None, list[str]]:
    """Return the model's entry and notes about its name; `config` replaces the entry's own."""
    if not isinstance(name, str) or not name:
        return None, []  # refused as missing
    entry, note = find_entry(models, name)
    if entry is not None:
        return (entry if config is None else {**entry, "config": config, "context": None}), [note] if note else []
    if "gguf" in name.lower():
        refuse_gguf(f"firstlight_model is {name!r}", errors)
        return None, []
    if _REPOSITORY.fullmatch(name) and config is not None:
        return {"name": name.rsplit("/", 1)[1].lower(), "repository": name, "revision": None, "config": config}, []
    errors.add(
        "model.unknown",
        f"firstlight_model is {name!r}",
        f"the catalog has no models/{name}.yml, and a model is defined by its config.json",
        suggest(
            name,
            sorted(models),
            otherwise="write ORGANISATION/NAME and set firstlight_model_config to the path of its config.json, or add "
            "an entry to a directory of firstlight_catalog",
        ),
    )
    return None, []


def read_revision(
    intent: Mapping[str, Any], model: Mapping[str, Any] | None, errors: PlanErrors, missing_inputs: PlanErrors
) -> str:
    """Return the commit of the weights; an invalid one is refused, an unset one is a missing input."""
    if model is None:
        return REVISION_TO_SUPPLY
    revision = intent.get("firstlight_model_revision", model.get("revision"))
    if isinstance(revision, str) and is_hexadecimal(revision, COMMIT_LENGTH):
        return revision
    (missing_inputs if revision is None else errors).add(
        "model.revision",
        f"the revision of {model['name']} is {'not set' if revision is None else repr(revision)}",
        "weights are pinned to a commit of their repository: 40 hexadecimal digits, never a branch",
        f"set firstlight_model_revision to the commit of {model['repository']} you want",
    )
    return REVISION_TO_SUPPLY
