# SPDX-License-Identifier: Apache-2.0
"""One text of the keeper and all its parts, as it is put on a node: system Python and nothing else runs it."""

from __future__ import annotations

import functools

from ..bundle import bundle

PROGRAM_PATH = "/usr/local/lib/firstlight/keeper.py"


@functools.cache
def program() -> str:
    """The source of the whole keeper; its arguments are those of `main`."""
    package = __name__.rpartition(".")[0]
    root = package.rpartition(".")[0]
    return bundle(f"{package}.main", root, "The keeper of a serving group: see docs/serving.md of Firstlight.")
