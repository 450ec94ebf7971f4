# SPDX-License-Identifier: Apache-2.0
"""The programs that run on nodes by themselves, each as the one text that its role installs (roles/ROLE/program)."""

from __future__ import annotations

import functools

from ansible_collections.firstlight.cluster.plugins.module_utils.bundle import bundle
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import PROGRAM_PATH as SUPERVISOR_PATH

__all__ = ["METRICS_PATH", "SUPERVISOR_PATH", "TITLES", "program"]

COLLECTION = "ansible_collections.firstlight.cluster"
TITLES = {
    "supervisor": "The supervisor of a serving group: see docs/serving.md of Firstlight.",
    "monitoring": "The metrics of a node: see docs/monitoring.md of Firstlight.",
}
METRICS_PATH = "/usr/local/lib/firstlight/metrics.py"


@functools.cache
def program(role: str) -> str:
    """The source of the program that this role installs; its arguments are those of its `main`."""
    return bundle(f"{COLLECTION}.roles.{role}.program.main", COLLECTION, TITLES[role])
