# SPDX-License-Identifier: Apache-2.0
"""Tests that use much processor time have to be marked, and properties have fewer examples by default."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.unit.examples import FEWEST, examples, some
from tests.unit.processor_time import ProcessorTimeLimit

pytest_plugins = ["pytester"]
TESTS = """
import subprocess, sys, time
import pytest

def use_a_tenth_of_a_second():
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass

def test_that_uses_the_processor():
    use_a_tenth_of_a_second()

def test_whose_child_uses_the_processor():
    program = "import time\\nwhile time.process_time() < 0.1: pass"
    subprocess.run([sys.executable, "-c", program], check=True)

@pytest.mark.slow
def test_that_is_marked():
    use_a_tenth_of_a_second()

def test_that_waits():
    time.sleep(0.1)
"""


@pytest.mark.slow  # a run of pytest that uses the processor on purpose
def test_only_unmarked_tests_that_use_the_processor_fail(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers = slow\n")
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", plugins=[ProcessorTimeLimit(0.05)])
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(["*that_uses_the_processor*", "*it used 0.1 s of processor time*"])


@pytest.mark.parametrize(("profile", "expected"), [("all", [60, 8]), ("quick", [15, FEWEST])])
def test_a_profile_chooses_the_share_of_examples(profile: str, expected: list[int]) -> None:
    before = settings.get_current_profile_name()
    settings.load_profile(profile)
    try:
        assert [examples(count).max_examples for count in (60, 8)] == expected
    finally:
        settings.load_profile(before)


@pytest.mark.parametrize(
    ("profile", "first", "count", "expected"),
    [("all", 3, 3, [0, 1, 2]), ("quick", 1, 10, [1, 5, 9]), ("quick", 3, 2, [1]), ("quick", 7, 0, [])],
)
def test_a_share_of_cases_is_empty_only_where_there_are_none(
    profile: str, first: int, count: int, expected: list[int]
) -> None:
    before = settings.get_current_profile_name()
    settings.load_profile(profile)
    try:
        assert list(some(range(count), first)) == expected
    finally:
        settings.load_profile(before)
