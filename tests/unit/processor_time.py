# SPDX-License-Identifier: Apache-2.0
"""Keeps `make test-fast` fast: a test that is not marked slow may use only so much processor time."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest


def processor_seconds() -> float:
    """What this process and the children it waited for have used."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class ProcessorTimeLimit:
    """A plugin of pytest. Other programs on the machine hardly change what it measures."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        before = processor_seconds()
        yield
        used = processor_seconds() - before
        if used > self.seconds and not item.get_closest_marker("slow"):
            pytest.fail(
                f"it used {used:.1f} s of processor time, expected at most {self.seconds:g} s: make it quicker, or "
                "mark it with pytest.mark.slow and say in a comment what takes its time",
                pytrace=False,
            )
