# SPDX-License-Identifier: Apache-2.0
"""Notes how long every test took, for the runner of the suite."""

from __future__ import annotations

import os

import pytest

from tests.suite.events import Event, note

WORTH_A_LINE = 1.0
"""Seconds from which on a fixture's part of a test is noted by itself."""


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
