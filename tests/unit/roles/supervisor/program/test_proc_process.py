# SPDX-License-Identifier: Apache-2.0
"""What the kernel tells of a process. The texts are of Linux 6.1 and 6.8; ids are made up."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.roles.supervisor.program.proc_process import (
    belongs,
    child_ticks,
    read_bytes,
)
from hypothesis import given
from hypothesis import strategies as st

IO = """rchar: 323934931
wchar: 323929600
syscr: 632687
syscw: 632675
read_bytes: 99864231936
write_bytes: 323932160
cancelled_write_bytes: 0
"""
STAT = (
    "4242 (ray::Worker (x) 1) S 4200 4242 4242 0 -1 4194560 91 42 0 0 1200 340 5150 250 20 0 64 0 88123 1 2 3 "
    "18446744073709551615 1 1 0 0 0 0 0 16781312 1 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)
ID = "c0ffee" + "1" * 58


def test_a_mapped_file_counts_from_the_disk_and_a_read_one_also_from_memory() -> None:
    assert read_bytes(IO) == 99864231936
    assert read_bytes(IO.replace("99864231936", "0")) == 323934931


@pytest.mark.parametrize("text", [None, "", "nonsense", "rchar: x\nread_bytes:\n"])
def test_a_kernel_that_does_not_count_tells_nothing(text: str | None) -> None:
    assert read_bytes(text) is None


def test_the_time_of_children_is_behind_a_name_with_anything_in_it() -> None:
    assert child_ticks(STAT) == 5150 + 250


@pytest.mark.parametrize("text", [None, "", "4242 (x) S 1", STAT.replace("5150 250", "a b")])
def test_what_is_no_stat_has_no_children(text: str | None) -> None:
    assert child_ticks(text) == 0


@pytest.mark.parametrize(
    ("text", "groups", "expected"),
    [
        (f"0::/system.slice/docker-{ID}.scope\n", [ID], True),
        (f"0::/docker/{ID}\n", [ID], True),
        (f"12:memory:/docker/{ID}\n0::/\n", [ID], True),
        ("0::/system.slice/firstlight-server.service\n", ["firstlight-server.service"], True),
        ("0::/system.slice/firstlight-server.service/sub\n", ["firstlight-server.service"], True),
        ("0::/system.slice/other-firstlight-server.service\n", ["firstlight-server.service"], False),
        ("0::/system.slice/docker.service\n", [ID, "firstlight-server.service"], False),
        ("0::/\n", [], False),
        (None, [ID], False),
        ("nonsense", [ID], False),
    ],
)
def test_a_process_is_known_by_its_container_or_its_unit(text: str | None, groups: list[str], expected: bool) -> None:
    assert belongs(text, groups) is expected


@given(text=st.text())
def test_whatever_stands_there_nothing_is_raised(text: str) -> None:
    assert (read_bytes(text) or 0) >= 0
    assert child_ticks(text) >= 0
    assert belongs(text, [ID]) in (True, False)
