# SPDX-License-Identifier: Apache-2.0
"""The programs that run on nodes by themselves, each as the one archive that its role installs (roles/ROLE/program)."""

from __future__ import annotations

import functools
import hashlib

from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import PROGRAM_PATH

from .zipapps import COLLECTION, sources, zipapp

METRICS_PATH = "/usr/local/lib/firstlight/metrics.pyz"
PATHS = {"supervisor": PROGRAM_PATH, "monitoring": METRICS_PATH}
"""Where each role installs its program."""


@functools.cache
def program(role: str) -> bytes:
    """The program that this role installs, a zipapp; its arguments are those of its `main`."""
    entry = f"{COLLECTION}.roles.{role}.program.main"
    main = f"# firstlight: written by firstlight, changes are overwritten\nfrom {entry} import main\n\nmain()\n"
    return zipapp({"__main__.py": main.encode(), **sources([entry])})


@functools.cache
def program_digest(role: str) -> str:
    """The SHA-256 of that file, the same on every host of a plan: putting it together takes a moment."""
    return hashlib.sha256(program(role)).hexdigest()
