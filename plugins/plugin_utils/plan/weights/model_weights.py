# SPDX-License-Identifier: Apache-2.0
"""The desired state of the model's files: one revision, every byte verified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.weights.file_selection import read_selection


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verified snapshot of the revision in the directory. Raises ValueError for an invalid file selection."""
    selection = variables.get("model_weights_files") or {}
    read_selection(selection)
    return {
        "snapshots": {
            str(variables["model_weights_directory"]): {
                "repository": str(variables["model_weights_repository"]),
                "revision": str(variables["model_weights_revision"]),
                # Without a selection every file of the revision is fetched.
                **({"selection": dict(selection)} if selection else {}),
                **{
                    name: str(pin)
                    for name in ("contents", "same_as")
                    if (pin := variables.get(f"model_weights_{name}"))
                },
            }
        }
    }
