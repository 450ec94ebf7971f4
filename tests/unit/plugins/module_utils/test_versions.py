# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.versions import is_older, version_key
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import is_later
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import older
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

IN_ORDER = (
    "0.6.3",
    "0.6.3.post1",
    "0.9.2",
    "0.10.0",
    "0.17.0.dev3",
    "0.17.0a1",
    "0.17.0b2",
    "0.17.0rc1",
    "0.17rc2",
    "0.17",
    "0.17.0.post1",
    "0.17.1rc1.dev2",
    "0.17.1rc1",
    "0.17.1",
    "1.2.0rc5.post1",
    "1.2.0rc6",
    "1.2",
    "12.9.1",
    "580.95.05",
    "580.142",
    "1!0.1",
)


def test_versions_sort_as_they_were_released() -> None:
    for number, one in enumerate(IN_ORDER):
        assert all(is_older(earlier, one) for earlier in IN_ORDER[:number])
        assert not any(is_older(later, one) for later in IN_ORDER[number:])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0.17", "0.17.0"),
        ("1", "1.0.0.0"),
        ("0.32.0", "0.32.0+cu130"),
        ("v0.32.0", "0.32.0"),
        ("0.17.0-rc1", "0.17rc1"),
        ("2.29.2-1+cuda13.0", "2.29.2"),
        ("580.95.05-0ubuntu1", "580.95.5"),
        ("0.11.0rc", "0.11rc0"),
        ("1.0rubbish", "1.0"),
    ],
)
def test_the_same_version_in_two_spellings(one: str, other: str) -> None:
    assert version_key(one) == version_key(other)
    assert not is_older(one, other)
    assert not is_older(other, one)


@pytest.mark.parametrize("text", [None, "", "latest", "main", "-1", ".5", "nightly-0.1"])
def test_what_is_no_version_is_neither_older_nor_newer(text: str | None) -> None:
    assert version_key(text) is None
    assert not is_older(text, "1.0")
    assert not is_older("1.0", text)


def test_every_rule_compares_alike() -> None:
    """Hazards, stack rules and flag schemas each had a comparison of their own, and disagreed on these."""
    for left, right in (("0.17.0rc1", "0.17.0"), ("0.17", "0.17.1"), ("0.17.0", "0.17.0.post1")):
        assert is_older(left, right)
        assert older(left, right)
        assert is_later(right, left)
        assert not is_later(left, right)
    assert not older("0.17", "0.17.0")
    assert not is_later("0.17.0", "0.17")
    assert not is_later("0.17.0rc1", "0.17.0")


NUMBER = st.integers(0, 40)


@st.composite
def versions(draw: st.DrawFn) -> str:
    release = ".".join(str(draw(NUMBER)) for _ in range(draw(st.integers(1, 4))))
    pre = draw(st.sampled_from(["", "a", "b", "rc"]))
    text = release + (f"{pre}{draw(NUMBER)}" if pre else "")
    text += f".post{draw(NUMBER)}" if draw(st.booleans()) else ""
    text += f".dev{draw(NUMBER)}" if draw(st.booleans()) else ""
    return text + ("+cu130" if draw(st.booleans()) else "")


@given(versions(), versions())
def test_the_order_is_that_of_python_packages(one: str, other: str) -> None:
    """But for what a builder appends, which is no newer version here."""
    left, right = (Version(text.partition("+")[0]) for text in (one, other))
    assert is_older(one, other) == (left < right)
    assert (version_key(one) == version_key(other)) == (left == right)


@given(st.text(max_size=300))
def test_any_text_has_a_key_or_none(text: str) -> None:
    assert not is_older(text, text)


def test_a_long_text_takes_no_time_and_breaks_nothing() -> None:
    assert version_key("1" * 10_000) is not None
    assert version_key("1." * 10_000) is not None
