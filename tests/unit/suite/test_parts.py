# SPDX-License-Identifier: Apache-2.0
"""Every test belongs to a part, every part to a slice, and the two suites differ as they say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight_lab.images import SYSTEMS, USUAL_SYSTEM
from firstlight_lab.spec import NAME
from tests.suite.parts import CHECKOUT, Part, chosen, load, parse_slice, slices

PARTS = load()
NAMES = st.text("abcdefgh", min_size=1, max_size=4)


def test_every_end_to_end_test_is_in_exactly_one_part() -> None:
    files = [path.relative_to(CHECKOUT) for path in (CHECKOUT / "tests/e2e").rglob("test_*.py")]
    owners = {
        file: [part.name for part in PARTS for place in part.tests if file.is_relative_to(Path(place))]
        for file in files
    }
    assert {str(file): names for file, names in owners.items() if len(names) != 1} == {}


def test_every_molecule_scenario_is_in_exactly_one_part_of_each_system() -> None:
    there = sorted(path.parent.name for path in (CHECKOUT / "molecule").glob("*/molecule.yml"))
    there.remove("default")  # starts and removes the lab of the others
    assert sorted(name for part in PARTS for name in part.scenarios if not part.system) == there
    elsewhere = [part for part in PARTS if part.system]
    assert {part.system for part in elsewhere} == set(SYSTEMS) - {USUAL_SYSTEM}
    assert all(set(part.scenarios) <= set(there) for part in elsewhere)


def test_a_part_with_scenarios_has_a_name_that_its_lab_can_have() -> None:
    for part in PARTS:
        if part.scenarios:
            assert NAME.match(part.name), part.name


def test_every_place_that_a_part_names_is_there() -> None:
    for part in PARTS:
        assert all((CHECKOUT / place).exists() for place in part.tests), part.name


def test_make_test_leaves_out_what_is_extended_and_test_all_leaves_out_nothing() -> None:
    for part in PARTS:
        if part.tests:
            assert "not extended" in part.argv("test")
            assert "not extended" not in part.argv("all")


@pytest.mark.parametrize(("suite", "left_out"), [("test", True), ("all", False)])
def test_the_unit_tests_are_chosen_in_the_same_way(tmp_path: Path, suite: str, *, left_out: bool) -> None:
    program = tmp_path / "pytest"
    program.write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
    program.chmod(0o755)
    (unit,) = [part for part in PARTS if part.name == "unit"]
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(unit.argv(suite), cwd=CHECKOUT, env=env, capture_output=True, text=True, check=True)
    assert ("not extended" in ran.stdout.splitlines()) is left_out


@given(st.dictionaries(NAMES, st.floats(0.1, 100), max_size=20), st.integers(1, 8))
def test_slices_hold_every_part_once_and_are_of_about_the_same_length(minutes: dict[str, float], count: int) -> None:
    parts = [Part(name, length, in_test=False) for name, length in minutes.items()]
    found = slices(parts, count)
    assert len(found) == count
    assert sorted(part.name for members in found for part in members) == sorted(minutes)
    lengths = [sum(part.minutes for part in members) for members in found]
    assert max(lengths) - min(lengths) <= max(minutes.values(), default=0.0) + 1e-6


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "a/b", "1/", "-1/4", "1/4/2"])
def test_a_slice_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected NUMBER/COUNT, for example 1/4"):
        parse_slice(text)


def test_an_unknown_part_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"there is no part nonsense; expected some of .*cluster"):
        chosen(PARTS, "all", only=["nonsense"])


def test_what_the_labs_wait_for_comes_first_and_then_the_longest() -> None:
    for suite in ("test", "all"):
        order = chosen(PARTS, suite)
        assert [part.first for part in order] == sorted((part.first for part in order), reverse=True)
        labs = [part.length(suite) for part in order if not part.first]
        assert labs == sorted(labs, reverse=True)


def test_a_part_of_which_make_test_has_little_is_short_there() -> None:
    part = Part("a", 14, in_test=True, test_minutes=4)
    assert (part.length("test"), part.length("all")) == (4, 14)
    assert Part("a", 14, in_test=True).length("test") == 14
