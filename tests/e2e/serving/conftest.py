# SPDX-License-Identifier: Apache-2.0
"""One lab of four nodes for all tests of serving. Each test begins with nodes that serve as it needs them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.serving.lab import RAY_TP4, Serving
from tests.e2e.serving.nodes import four_nodes
from tests.e2e.serving.places import take_place
from tests.e2e.serving.records import table
from tests.suite.events import PART

RECORDS = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if RECORDS in config.stash:
        terminalreporter.section("faults, in seconds")
        for line in config.stash[RECORDS]:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def rack(pytestconfig: pytest.Config) -> Iterator[Serving]:
    """Four Sparks, whatever serves there."""
    with four_nodes(os.environ.get(PART, "serving")) as made:
        yield made
        pytestconfig.stash[RECORDS] = table(made.records.found)


@pytest.fixture
def serving(rack: Serving) -> Serving:
    """Four nodes that serve with tensor parallel 4 over Ray."""
    take_place(rack, RAY_TP4)
    return rack
