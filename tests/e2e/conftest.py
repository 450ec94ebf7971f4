# SPDX-License-Identifier: Apache-2.0
"""Each directory here has a lab of its own: its tests run alone, in any order, and beside those of the others."""

from __future__ import annotations

import json
from typing import Any

import pytest

FIGURES = pytest.StashKey[dict[str, Any]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[FIGURES]:
        terminalreporter.section("figures")
        terminalreporter.write_line(json.dumps(config.stash[FIGURES], indent=2))


@pytest.fixture(scope="session")
def results(pytestconfig: pytest.Config) -> dict[str, Any]:
    """Figures worth keeping, as ratios measured side by side: shown at the end of the run."""
    return pytestconfig.stash[FIGURES]
