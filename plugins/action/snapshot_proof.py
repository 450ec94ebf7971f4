# SPDX-License-Identifier: Apache-2.0
"""The action `snapshot_proof`: the module of that name as a job on its host, with its progress shown."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.action import model_snapshot


class ActionModule(model_snapshot.ActionModule):
    """Reads a model's files again."""
