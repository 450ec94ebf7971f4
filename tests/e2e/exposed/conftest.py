# SPDX-License-Identifier: Apache-2.0
"""Two nodes that serve behind firewall and endpoint; of the two others one is a stranger, one monitors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.exposed.client import first_run
from tests.e2e.exposed.secrets import Told
from tests.e2e.serving.lab import EXPOSED, Serving
from tests.e2e.serving.nodes import four_nodes
from tests.e2e.serving.places import take_place


@pytest.fixture(scope="session")
def rack() -> Iterator[Serving]:
    """Four nodes on which nothing serves yet."""
    with four_nodes("exposed") as made:
        yield made


@pytest.fixture(scope="session")
def told(rack: Serving, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The verbose output of the run that made the secrets and brought all of it up."""
    return first_run(rack, tmp_path_factory.mktemp("told"))


@pytest.fixture
def exposed(rack: Serving, told: Told) -> Serving:
    """The endpoint as the first run brought it up, whatever an earlier test has taken away."""
    del told
    take_place(rack, EXPOSED)
    return rack
