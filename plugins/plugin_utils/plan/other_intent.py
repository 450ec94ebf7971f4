# SPDX-License-Identifier: Apache-2.0
"""Derive the intent of an inventory with another model, or with other serving settings.

Settings that hold for the former model alone are dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent

_OF_ONE_MODEL = ("firstlight_model_config", "firstlight_model_files", "firstlight_model_revision")
_WEIGHTS_OF_ONE_MODEL = (
    "model_weights_repository",
    "model_weights_revision",
    "model_weights_directory",
    "model_weights_files",
)
_SERVING_OF_ONE_MODEL = ("served_name",)


def with_model(
    hosts: Sequence[HostIntent],
    model: str,
    revision: str | None = None,
    serving: Mapping[str, Any] | None = None,
) -> list[HostIntent]:
    """Return the hosts as if their inventory named this model; `serving` overrides keys of firstlight_serving."""
    return [_with_model(host, model, revision, serving or {}) for host in hosts]


def with_serving(hosts: Sequence[HostIntent], serving: Mapping[str, Any]) -> list[HostIntent]:
    """Return the hosts as if their inventory had these settings in firstlight_serving."""
    return [dataclasses.replace(host, intent=_settings(host.intent, serving)) for host in hosts]


def _settings(intent: Mapping[str, Any], serving: Mapping[str, Any]) -> dict[str, Any]:
    own = intent.get("firstlight_serving")
    return {**intent, "firstlight_serving": {**(own if isinstance(own, Mapping) else {}), **serving}}


def _with_model(host: HostIntent, model: str, revision: str | None, serving: Mapping[str, Any]) -> HostIntent:
    intent = dict(host.intent)
    variables = dict(host.variables)
    if intent.get("firstlight_model") != model:
        intent = {key: value for key, value in intent.items() if key not in _OF_ONE_MODEL}
        variables = {key: value for key, value in variables.items() if key not in _WEIGHTS_OF_ONE_MODEL}
        if isinstance(intent.get("firstlight_serving"), Mapping):
            own = intent["firstlight_serving"]
            intent["firstlight_serving"] = {key: own[key] for key in own if key not in _SERVING_OF_ONE_MODEL}
    intent["firstlight_model"] = model
    if revision:
        intent["firstlight_model_revision"] = revision
    if serving:
        intent = _settings(intent, serving)
    return dataclasses.replace(host, intent=intent, variables=variables)
