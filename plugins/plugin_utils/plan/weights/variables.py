# SPDX-License-Identifier: Apache-2.0
"""The variables for the weights: which model, from where, and how they reach each host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.weights_files import (
    load_format_of,
    load_rules,
    selection,
    unknown_load_format,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of

MODEL_ROOT = "/var/lib/firstlight/models"
WEIGHTS_ENDPOINT = "https://huggingface.co"


def weights_variables(resolved: ResolvedIntent, host: HostIntent, addresses: Mapping[str, str]) -> dict[str, Any]:
    """Return the variables of role model_weights; `addresses` are the hosts' own on the fabric."""
    intent, repository = resolved.intent, resolved.model["repository"]
    root = str(intent.get("firstlight_model_root") or MODEL_ROOT).rstrip("/")
    return {
        "model_weights_endpoint": intent.get("firstlight_weights_endpoint")
        or resolved.stack.get("weights_endpoint", WEIGHTS_ENDPOINT),
        "model_weights_source": str(intent.get("firstlight_weights_source") or ""),
        "model_weights_repository": repository,
        "model_weights_revision": resolved.revision,
        "model_weights_directory": f"{root}/{repository.replace('/', '--')}/{resolved.revision}",
        "model_weights_files": selection(
            load_rules(),
            *engine_of(resolved.stack),
            _load_format(resolved),
            resolved.model.get("files"),
            resolved.intent.get("firstlight_model_files"),
        ),
        "model_weights_contents": str(resolved.model.get("contents") or ""),
        "model_weights_same_as": "" if host.is_head else resolved.head.name,
        **share_variables("model_weights", resolved, addresses),
    }


def share_variables(role: str, resolved: ResolvedIntent, addresses: Mapping[str, str]) -> dict[str, Any]:
    """Return the head's address for sharing files, and by name the addresses of the hosts it serves first.

    A single host has nobody to share with, and without a fabric nothing is shared.
    """
    shares = len(resolved.hosts) > 1 and bool(resolved.fabric.rails)
    others = dict(addresses)
    del others[resolved.head.name]
    return {
        f"{role}_share_address": addresses[resolved.head.name] if shares else "",
        f"{role}_share_peers": others if shares else {},
    }


def weights_notes(resolved: ResolvedIntent) -> list[str]:
    """Return a note if the load format is unknown, as it decides which files are fetched."""
    note = unknown_load_format(load_rules(), *engine_of(resolved.stack), _load_format(resolved))
    return [note] if note else []


def _load_format(resolved: ResolvedIntent) -> str | None:
    engine, _ = engine_of(resolved.stack)
    return load_format_of(load_rules(), engine, resolved.serving.flags, resolved.serving.engine_settings)
