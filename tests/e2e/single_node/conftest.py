# SPDX-License-Identifier: Apache-2.0
"""One node with four H100 that serves behind firewall and endpoint; of two others one is a stranger, one monitors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.exposed.secrets import TELL_ALL
from tests.e2e.serving.engine_starts import note_engine_starts
from tests.e2e.serving.lab import Profile, Run, Serving
from tests.e2e.serving.nodes import lab_of

LAB = "h100x4"
H100 = Profile("tests/e2e/single_node/inventory/h100", "gpu0", ("gpu0",), "-tp4", "h100-sxm-4-nvswitch")


@pytest.fixture(scope="session")
def rack() -> Iterator[Serving]:
    """Three nodes on which nothing serves yet."""
    with lab_of(LAB, H100, "--nodes", "3", "--profile", H100.hardware) as made:
        yield made


@pytest.fixture(scope="session")
def first_run(rack: Serving) -> Run:
    """The run that made the secrets and brought all of it up, which said all it had to say."""
    run = rack.playbook("site.yml", *TELL_ALL)
    note_engine_starts("one node", rack.groups())
    rack.assert_serves()
    return run


@pytest.fixture
def node(rack: Serving, first_run: Run) -> Serving:
    """The node as the first run brought it up, whatever an earlier test has taken away."""
    del first_run
    rack.restore_service()
    return rack
