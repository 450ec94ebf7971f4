# SPDX-License-Identifier: Apache-2.0
"""Where an intent takes the weights from: a hub, or a directory of the head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals

REFUSALS = {
    "weights.source": "Weights that do not come from a hub come from a directory of the head, named by its whole path.",
}


def check_weights_source(intent: Mapping[str, Any], refusals: Refusals) -> None:
    """Refuse what is not the absolute path of a directory."""
    given = intent.get("firstlight_weights_source")
    if given is not None and not (isinstance(given, str) and given.startswith("/")):
        refusals.add(
            "weights.source",
            f"firstlight_weights_source is {given!r}",
            "it is the absolute path of a directory on the head with the model's files",
            "write firstlight_weights_source: /mnt/models/huggingface, or leave it out to take them from the hub",
        )
