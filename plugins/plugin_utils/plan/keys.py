# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of an intent: known variables and keys, and the error for any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors

INTENT_KEYS = (
    "firstlight_hardware",
    "firstlight_stack",
    "firstlight_model",
    "firstlight_model_config",
    "firstlight_model_files",
    "firstlight_model_revision",
    "firstlight_model_root",
    "firstlight_image",
    "firstlight_image_archive",
    "firstlight_image_build",
    "firstlight_weights_endpoint",
    "firstlight_weights_source",
    "firstlight_fabric",
    "firstlight_networks",
    "firstlight_serving",
    "firstlight_endpoint",
    "firstlight_catalog",
    "firstlight_sources",
    "firstlight_price_per_gpu_hour",
    "firstlight_power",
    "firstlight_monitoring",
    "firstlight_targets",
    "firstlight_bench",
    "firstlight_bench_now",
    "firstlight_quality",
    "firstlight_firewall",
    "firstlight_exposed_ok",
    "firstlight_full",
    "firstlight_answer_timeout",
    "firstlight_break_lease",
)
"""The variables in which an operator writes the intent, once for the whole cluster."""

ERRORS = {
    "intent.type": "A value of another type than the plan reads would be ignored or misread.",
    "intent.unknown-key": "A misspelt key would silently do nothing, so a key that is never read is refused.",
}


def check_keys(value: Mapping[str, Any], known: Sequence[str], where: str, errors: PlanErrors) -> None:
    """Refuse every key of `value` that is not known."""
    for key in value:
        if key not in known:
            errors.add(
                "intent.unknown-key",
                f"{where} has a key {key!r}",
                f"{where} has the keys {', '.join(known)}; any other key would silently do nothing",
                suggest(str(key), known),
            )


def read_mapping(intent: Mapping[str, Any], name: str, known: Sequence[str], errors: PlanErrors) -> Mapping[str, Any]:
    """Read a variable that is a mapping and check its keys; empty when it is not set or refused."""
    value = intent.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        errors.add(
            "intent.type",
            f"{name} is {value!r}",
            f"{name} is a mapping with the keys {', '.join(known)}",
            f"write {name} as a mapping, see inventory/spark4/group_vars/all.yml",
        )
        return {}
    check_keys(value, known, name, errors)
    return value


def read_enabled(given: Mapping[str, Any], name: str, errors: PlanErrors) -> bool:
    """Whether a part of the intent is enabled: unless its key `enabled` is false."""
    value = given.get("enabled")
    if value is None or isinstance(value, bool):
        return value is not False
    errors.add(
        "intent.type",
        f"{name}.enabled is {value!r}",
        "enabled is true or false",
        f"write false to remove it, or leave {name}.enabled out",
    )
    return True
