# SPDX-License-Identifier: Apache-2.0
"""One lab of four nodes for all tests of serving. `make test` runs some of them in the lab of the end-to-end tests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.facing import first_run
from tests.serving.lab import RAY_TP4, Serving
from tests.serving.places import take_place
from tests.serving.records import table
from tests.serving.secrets import Told

CHECKOUT = Path(__file__).resolve().parents[2]
LAB = os.environ.get("FIRSTLIGHT_SERVING_LAB", "serving")
RECORDS = Path(os.environ.get("FIRSTLIGHT_SERVING_RECORDS") or CHECKOUT / "build/serving.json")
KEEP = "FIRSTLIGHT_SERVING_KEEP"
"""Set while a test is being written: the lab is used as it is found, and stays."""


def pytest_configure() -> None:
    RECORDS.unlink(missing_ok=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if RECORDS.exists():
        terminalreporter.section(f"faults, in seconds ({RECORDS})")
        for line in table(json.loads(RECORDS.read_text(encoding="utf-8"))):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def rack() -> Iterator[Serving]:
    """Four Sparks on which nothing serves yet."""
    made = Serving(CHECKOUT, LAB)
    try:
        made.command("firstlight", "lab", "up", "--name", LAB)
        yield made
    finally:
        made.records.write(RECORDS)
        if KEEP not in os.environ:
            made.command("firstlight", "lab", "down", "--name", LAB, fails=None)


@pytest.fixture(scope="session")
def serving(rack: Serving) -> Serving:
    """The same, serving with vllm-ray."""
    take_place(rack, RAY_TP4)
    return rack


@pytest.fixture(scope="session")
def told(rack: Serving, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What the first run said that brought what faces others."""
    return first_run(rack, tmp_path_factory.mktemp("told"))


@pytest.fixture(scope="session")
def facing(rack: Serving, told: Told) -> Serving:
    """The same, with what faces others."""
    del told
    return rack
