# SPDX-License-Identifier: Apache-2.0
"""What the plan sets for the weights: which, from where, and how they come to each host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.choices import Settled
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.weights_files import (
    load_format_of,
    load_rules,
    selection,
    unknown_load_format,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of

MODEL_ROOT = "/var/lib/firstlight/models"
WEIGHTS_ENDPOINT = "https://huggingface.co"


def weights_variables(choices: Settled, host: HostIntent, addresses: Mapping[str, str]) -> dict[str, Any]:
    """The variables of the role that brings the weights; `addresses` are the hosts' own on the fabric."""
    intent, repository = choices.intent, choices.model["repository"]
    root = str(intent.get("firstlight_model_root") or MODEL_ROOT).rstrip("/")
    return {
        "model_weights_endpoint": intent.get("firstlight_weights_endpoint")
        or choices.stack.get("weights_endpoint", WEIGHTS_ENDPOINT),
        "model_weights_source": str(intent.get("firstlight_weights_source") or ""),
        "model_weights_repository": repository,
        "model_weights_revision": choices.revision,
        "model_weights_directory": f"{root}/{repository.replace('/', '--')}/{choices.revision}",
        "model_weights_files": selection(
            load_rules(),
            *engine_of(choices.stack),
            _load_format(choices),
            choices.model.get("files"),
            choices.intent.get("firstlight_model_files"),
        ),
        "model_weights_contents": str(choices.model.get("contents") or ""),
        "model_weights_same_as": "" if host.is_head else choices.head.name,
        **share_variables("model_weights", choices, addresses),
    }


def share_variables(role: str, choices: Settled, addresses: Mapping[str, str]) -> dict[str, Any]:
    """Where the head shares, and the addresses of those it shares with, who come before everybody else.

    One host has nobody to give anything to, and without a fabric nobody is given it.
    """
    shares = len(choices.hosts) > 1 and bool(choices.fabric.rails)
    others = dict(addresses)
    del others[choices.head.name]
    return {
        f"{role}_share_address": addresses[choices.head.name] if shares else "",
        f"{role}_share_peers": others if shares else {},
    }


def weights_notes(choices: Settled) -> list[str]:
    """What the operator should know of the files that are brought."""
    note = unknown_load_format(load_rules(), *engine_of(choices.stack), _load_format(choices))
    return [note] if note else []


def _load_format(choices: Settled) -> str | None:
    engine, _ = engine_of(choices.stack)
    return load_format_of(load_rules(), engine, choices.serving.flags, choices.serving.engine_settings)
