# SPDX-License-Identifier: Apache-2.0
"""One text of the program and all its parts, as it is put on a node: system Python and nothing else runs it."""

from __future__ import annotations

import functools

from ..bundle import bundle

PROGRAM_PATH = "/usr/local/lib/firstlight/metrics.py"


@functools.cache
def program() -> str:
    """The source of the whole program; its arguments are those of `main`."""
    package = __name__.rpartition(".")[0]
    root = package.rpartition(".")[0]
    return bundle(f"{package}.main", root, "The metrics of a node: see docs/monitoring.md of Firstlight.")
