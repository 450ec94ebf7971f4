# SPDX-License-Identifier: Apache-2.0
"""A lab for tests of what serves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tests.e2e.serving.lab import RAY_TP4, Profile, Serving
from tests.e2e.support import CHECKOUT

KEEP = "FIRSTLIGHT_KEEP_LAB"
"""Set while a test is being written: the lab is used as it is found, and stays."""


def four_nodes(name: str) -> AbstractContextManager[Serving]:
    """Four Sparks on which nothing serves yet."""
    return lab_of(name, RAY_TP4)


@contextmanager
def lab_of(name: str, profile: Profile, *options: str) -> Iterator[Serving]:
    """A lab with these options of `firstlight lab up`, on which nothing serves yet."""
    made = Serving(CHECKOUT, name, profile=profile)
    try:
        made.command("firstlight", "lab", "up", "--name", name, *options)
        yield made
    finally:
        made.records.write(CHECKOUT / f"build/{name}.json")
        if KEEP not in os.environ:
            made.command("firstlight", "lab", "down", "--name", name, fails=None)
