# SPDX-License-Identifier: Apache-2.0
"""An answer of the stand-in nvidia-smi is given again, and never when it would be another one by now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from firstlight_lab.nvidia.node import kept

pytestmark = pytest.mark.slow  # nvidia-smi in processes of its own, several times each

if TYPE_CHECKING:
    from tests.unit.lab.conftest import Node

PROGRAM = "usr/bin/nvidia-smi"
NAMES = ("--query-gpu=name,driver_version", "--format=csv,noheader")


def answers(node: Node) -> list[Path]:
    return sorted((node.root / kept.PLACE).glob("*"))


def lie(node: Node) -> None:
    """Write into the only kept answer what nobody else would say."""
    (path,) = answers(node)
    mark, _, _ = path.read_text().partition("\n")
    path.write_text(f"{mark}\nkept\n")


def asked(node: Node, *arguments: str) -> str:
    done = node.run(PROGRAM, *(arguments or NAMES))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_answer_is_given_again(node: Node) -> None:
    node.describe("gb10")
    first = asked(node)
    assert asked(node) == first == "NVIDIA GB10, 580.95.05\n"
    lie(node)
    assert asked(node) == "kept\n"


def loads_another(node: Node) -> None:
    (node.root / "run/nvidia-driver-loaded").write_text("580.105.08\n")
    (node.root / "usr/share/firstlight-lab/nvidia/library.json").write_text('{"version": "580.105.08"}')


CHANGES: dict[str, tuple[Callable[[Node], object], str]] = {
    "a fault": (lambda node: node.describe("gb10", "no_devices"), "No devices were found"),
    "another machine": (lambda node: node.describe("h100-sxm-4-nvswitch"), "NVIDIA H100 80GB HBM3, 580.95.05"),
    "another driver": (loads_another, "NVIDIA GB10, 580.105.08"),
    "no driver": (lambda node: (node.root / "run/nvidia-driver-loaded").unlink(), "couldn't communicate"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_is_told_at_once(node: Node, change: str) -> None:
    node.describe("gb10")
    asked(node)
    lie(node)
    happens, expected = CHANGES[change]
    happens(node)
    told = node.run(PROGRAM, *NAMES).stdout
    assert "kept" not in told
    assert expected in told


@pytest.mark.parametrize("arguments", [[], ["-q"], ["-q", "-x"], ["--query-gpu=timestamp", "--format=csv"]])
def test_an_answer_with_the_time_is_made_anew(node: Node, arguments: list[str]) -> None:
    node.describe("gb10")
    assert node.run(PROGRAM, *arguments).returncode == 0
    assert answers(node) == []


def test_a_refusal_is_not_kept(node: Node) -> None:
    node.describe("gb10")
    assert node.run(PROGRAM, "--query-gpu=nonsense", "--format=csv").returncode != 0
    assert answers(node) == []


def test_where_nothing_can_be_written_it_answers_all_the_same(node: Node) -> None:
    node.describe("gb10")
    place = node.root / kept.PLACE
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("in the way")
    assert asked(node) == asked(node) == "NVIDIA GB10, 580.95.05\n"
