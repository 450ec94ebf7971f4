# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.fields import (
    READERS,
    canonical,
    is_field,
    read,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("name", "today"),
    [
        ("memory.total [MiB]", "memory.total"),
        ("gpu_name", "name"),
        ("pci.bus_id", "bus"),
        ("clocks_throttle_reasons.hw_slowdown", "clocks_event_reasons.hw_slowdown"),
        ("clocks.sm [MHz]", "clocks.current.sm"),
        (" Inforom.Image ", "inforom.img"),
    ],
)
def test_names_of_today(name: str, today: str) -> None:
    assert canonical(name) == today
    assert is_field(name)


@pytest.mark.parametrize("name", ["NVIDIA H200", "0", "hello", "Disabled", "...", ""])
def test_values_are_no_names(name: str) -> None:
    assert not is_field(name)


@pytest.mark.parametrize(
    ("field", "raw", "value"),
    [
        ("memory.total", "81559 MiB", 81559),
        ("memory.total", "81559", 81559),
        ("power.limit", "700.00 W", 700.0),
        ("pcie.link.width.current", "16x", 16),
        ("clocks_event_reasons.active", "0x0000000000000001", 1),
        ("bus", "0000:0f:01.0", "00000000:0F:01.0"),
        ("persistence_mode", "Enabled", True),
        ("compute_mode", "E. Process", "Exclusive_Process"),
        ("gpu_recovery_action", "None", "None"),
        ("fabric.state", "N/A", None),
        ("memory.total", "[Not Supported]", None),
    ],
)
def test_values(field: str, raw: str, value: Any) -> None:
    found = read(field, raw)
    assert found.told
    assert found.value == value


def test_what_a_driver_no_longer_gives_is_neither_a_value_nor_none() -> None:
    found = read("persistence_mode", "[Requested functionality has been deprecated]")
    assert (found.told, found.trouble, found.problem) == (False, "", "")


@pytest.mark.parametrize("raw", ["[GPU is lost]", "ERR!", "[Unknown Error]", "GPU requires reset"])
def test_what_stands_for_a_gpu_that_does_not_answer(raw: str) -> None:
    assert read("temperature.gpu", raw).trouble
    assert not read("temperature.gpu", raw).told


@given(st.sampled_from(sorted(READERS)), st.text(max_size=30))
def test_any_text_is_a_value_or_is_not(field: str, raw: str) -> None:
    found = read(field, raw)
    assert found.told or found.trouble or found.problem or not found.value
