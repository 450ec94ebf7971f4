# SPDX-License-Identifier: Apache-2.0
"""Quantisation that an engine applies while loading weights: catalog/rules/online_quantization.yml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.versions import is_older
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import WeightFormat

RULES = BUILT_IN / "rules" / "online_quantization.yml"


@dataclass(frozen=True)
class Online:
    """The formats that weights get while they are loaded; None leaves them as they are."""

    method: str
    linear: WeightFormat | None
    experts: WeightFormat | None
    told: str


@lru_cache(maxsize=1)
def _rules() -> Mapping[str, Any]:
    found: Mapping[str, Any] = load_yaml(RULES)
    return found


def _known(engine: str, version: str | None) -> dict[str, Mapping[str, Any]]:
    """Return the values of the engine's --quantization that need no quantised checkpoint, in this version."""
    methods: Mapping[str, Mapping[str, Any]] = _rules()["engines"].get(engine) or {}
    return {word: one for word, one in methods.items() if not is_older(version, one["from"])}


def online_methods(engine: str, version: str | None) -> list[str]:
    return list(_known(engine, version))


def online_quantization(engine: str, version: str | None, word: str) -> Online | None:
    """Return what --quantization makes of 16-bit weights; None if it only reads weights quantised before."""
    found = _known(engine, version).get(word)
    if found is None:
        return None
    formats = {name: WeightFormat(**{"padded": True, **one}) for name, one in _rules()["formats"].items()}
    # A release that quantises the whole model after loading it needs the memory of 16 bits at its start.
    whole = is_older(version, found.get("piecewise"))
    linear, experts = (None if whole else formats.get(found.get(key)) for key in ("linear", "experts"))
    bits = {one.bits for one in (linear, experts) if one is not None}
    counted = (
        f"{'linear layers and experts' if linear else 'experts'} are counted in {min(bits)} bits"
        if bits
        else ("this version loads everything in 16 bits first, so it is counted that way")
    )
    return Online(word, linear, experts, counted)
