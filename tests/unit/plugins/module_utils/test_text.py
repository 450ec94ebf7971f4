# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.text import (
    gigabytes,
    is_address,
    is_hexadecimal,
    said_lines,
)


@pytest.mark.parametrize(("count", "words"), [(0, "0.0 GB"), (1_540_000_000, "1.5 GB"), (406.6e9, "406.6 GB")])
def test_amounts(count: float, words: str) -> None:
    assert gigabytes(count) == words


def test_lines_that_say_something() -> None:
    assert said_lines("\n  one \r\n\t\ntwo") == ["one", "two"]
    assert said_lines(" \n") == []


@pytest.mark.parametrize(
    ("text", "expected"), [("0" * 40, True), ("f" * 39, False), ("f" * 41, False), ("F" * 40, False), ("g" * 40, False)]
)
def test_a_commit_has_forty_digits(text: str, expected: bool) -> None:
    assert is_hexadecimal(text, 40) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("192.0.2.1", True), ("fd00::1", True), ("spark0", False), ("192.0.2.1/24", False), ("", False), (5, False)],
)
def test_an_address_is_no_name(value: object, expected: bool) -> None:
    assert is_address(value) is expected
