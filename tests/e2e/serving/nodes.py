# SPDX-License-Identifier: Apache-2.0
"""A lab of four nodes for tests of what serves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.serving.lab import Serving
from tests.e2e.support import CHECKOUT

KEEP = "FIRSTLIGHT_KEEP_LAB"
"""Set while a test is being written: the lab is used as it is found, and stays."""


@contextmanager
def four_nodes(name: str) -> Iterator[Serving]:
    """Four Sparks on which nothing serves yet."""
    made = Serving(CHECKOUT, name)
    try:
        made.command("firstlight", "lab", "up", "--name", name)
        yield made
    finally:
        made.records.write(CHECKOUT / f"build/{name}.json")
        if KEEP not in os.environ:
            made.command("firstlight", "lab", "down", "--name", name, fails=None)
