# SPDX-License-Identifier: Apache-2.0
"""Nodes are machines of their own: what runs beside them does not leave them without processor time."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstlight_lab.processors import share_with


def group(root: Path, name: str, value: str) -> Path:
    file = root / name
    file.parent.mkdir(parents=True)
    file.write_text(value)
    return file


@pytest.mark.parametrize("directory", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(("nodes", "shares"), [(0, 1024), (1, 1024), (4, 4096), (64, 65536), (1000, 262144)])
def test_a_node_has_the_shares_of_a_program(tmp_path: Path, directory: str, nodes: int, shares: int) -> None:
    file = group(tmp_path, f"{directory}/docker/cpu.shares", "1024\n")
    share_with(nodes, tmp_path)
    assert int(file.read_text()) == shares


@pytest.mark.parametrize(("nodes", "weight"), [(4, 400), (64, 6400), (1000, 10000)])
def test_the_second_version_of_control_groups_has_other_numbers(tmp_path: Path, nodes: int, weight: int) -> None:
    file = group(tmp_path, "docker/cpu.weight", "100\n")
    share_with(nodes, tmp_path)
    assert int(file.read_text()) == weight


def test_a_machine_without_such_a_group_is_left_as_it_is(tmp_path: Path) -> None:
    file = group(tmp_path, "cpu/system.slice/cpu.shares", "1024\n")
    share_with(4, tmp_path)
    assert file.read_text() == "1024\n"
    assert not (tmp_path / "docker").exists()


def test_a_group_that_cannot_be_changed_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "docker/cpu.weight").mkdir(parents=True)
    share_with(4, tmp_path)
