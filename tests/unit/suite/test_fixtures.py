# SPDX-License-Identifier: Apache-2.0
"""Tests of a slice may run once a week: that their fixtures fit together is seen at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LAB_SECONDS, pytest_collection_modifyitems

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.mark.slow  # pytest reads every end-to-end test
def test_every_end_to_end_test_can_be_set_up() -> None:
    plan = [sys.executable, "-m", "pytest", "--setup-plan", "-q", "-p", "no:cacheprovider", "tests/e2e"]
    ran = subprocess.run(plan, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 5), ran.stdout[-4000:]  # 5: planned, and none was run
    assert "tests/e2e/" in ran.stdout


@pytest.mark.parametrize(
    ("path", "seconds"),
    [
        ("tests/e2e/cluster/test_drift.py", LAB_SECONDS),
        ("tests/e2e/racks/test_membership.py", LAB_SECONDS),
        (__file__, None),
    ],
)
def test_a_test_with_a_lab_has_its_time_however_it_is_started(
    request: pytest.FixtureRequest, path: str, seconds: int | None
) -> None:
    item = pytest.Function.from_parent(request.node.parent, name="one", callobj=lambda: None)
    item.path = CHECKOUT / path
    pytest_collection_modifyitems([item])
    marker = item.get_closest_marker("timeout")
    assert (marker.args[0] if marker else None) == seconds
