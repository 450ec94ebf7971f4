# SPDX-License-Identifier: Apache-2.0
"""The model's files at one revision, every byte verified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """A verified snapshot of the repository at the revision in the directory."""
    return {
        "snapshots": {
            str(variables["model_weights_directory"]): {
                "repository": str(variables["model_weights_repository"]),
                "revision": str(variables["model_weights_revision"]),
            }
        }
    }
