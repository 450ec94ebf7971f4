# SPDX-License-Identifier: Apache-2.0
"""What the plan sets for the weights: which, from where, and how they come to each host."""

from __future__ import annotations

from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.choices import Settled

MODEL_ROOT = "/var/lib/firstlight/models"
WEIGHTS_ENDPOINT = "https://huggingface.co"


def weights_variables(choices: Settled, head_address: str) -> dict[str, Any]:
    """The variables of the role that brings the weights; `head_address` is the head's on the fabric."""
    intent, repository = choices.intent, choices.model["repository"]
    root = str(intent.get("firstlight_model_root") or MODEL_ROOT).rstrip("/")
    return {
        "model_weights_endpoint": intent.get("firstlight_weights_endpoint")
        or choices.stack.get("weights_endpoint", WEIGHTS_ENDPOINT),
        "model_weights_source": str(intent.get("firstlight_weights_source") or ""),
        "model_weights_repository": repository,
        "model_weights_revision": choices.revision,
        "model_weights_directory": f"{root}/{repository.replace('/', '--')}/{choices.revision}",
        # One host has nobody to give them to, and without a fabric nobody is given them.
        "model_weights_share_address": head_address if len(choices.hosts) > 1 and choices.fabric.rails else "",
    }
