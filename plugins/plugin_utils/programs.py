# SPDX-License-Identifier: Apache-2.0
"""Standalone programs for nodes, each built as the single archive that its role installs (roles/ROLE/program)."""

from __future__ import annotations

import functools
import hashlib

from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import PROGRAM_PATH

from .zipapps import COLLECTION, sources, zipapp

METRICS_PATH = "/usr/local/lib/firstlight/metrics.pyz"
PATHS = {"supervisor": PROGRAM_PATH, "monitoring": METRICS_PATH}
"""Install path of each role's program."""


@functools.cache
def program(role: str) -> bytes:
    """Build the zipapp that this role installs; its arguments are those of its `main`."""
    entry = f"{COLLECTION}.roles.{role}.program.main"
    main = f"# firstlight: written by firstlight, changes are overwritten\nfrom {entry} import main\n\nmain()\n"
    return zipapp({"__main__.py": main.encode(), **sources([entry])})


@functools.cache
def program_digest(role: str) -> str:
    """Return the SHA-256 of the role's program; cached, as building it takes a moment and all hosts share it."""
    return hashlib.sha256(program(role)).hexdigest()
