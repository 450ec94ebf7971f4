# SPDX-License-Identifier: Apache-2.0
"""Notes how long every test took, for the runner of the suite, and gives tests with a lab the time that they need."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.suite.events import Event, note

WORTH_A_LINE = 1.0
"""Seconds from which on a fixture's part of a test is noted by itself."""
UNIT = Path(__file__).parent / "unit"
LAB_SECONDS = 3600
"""For one test with its fixtures: a bring-up and several starts of an engine, on a slow machine."""


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Give a test with a lab its own limit, however it is started: that in pyproject.toml is for unit tests."""
    for item in items:
        if UNIT not in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LAB_SECONDS))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:  # the process that distributes the tests notes them
        return
    seconds = round(report.duration, 2)
    if report.when == "call" or report.outcome == "failed":
        note(Event("test", report.nodeid, seconds, report.outcome, _last_words(report)))
    elif seconds >= WORTH_A_LINE:
        note(Event(report.when, report.nodeid, seconds))


def _last_words(report: pytest.TestReport) -> str:
    """The error itself, without the way to it: what is read first in a log of thousands of lines."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message)[:2000] if report.failed and crash is not None else ""
