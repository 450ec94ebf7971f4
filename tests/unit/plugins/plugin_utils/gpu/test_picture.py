# SPDX-License-Identifier: Apache-2.0
"""The topology on a terminal and as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.picture import svg, table_lines
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

SVG = "{http://www.w3.org/2000/svg}"


def machine(gpus: int, nics: int = 0, word: str = "NV18") -> dict[str, Any]:
    names = [f"GPU{number}" for number in range(gpus)]
    cards = [f"NIC{number}" for number in range(nics)]
    cells = {
        one: {other: word if other in names else "PIX" for other in [*names, *cards] if other != one} for one in names
    }
    cells |= {card: dict.fromkeys(names, "PIX") for card in cards}
    return {
        "gpus": names,
        "nics": cards,
        "cells": cells,
        "affinity": {name: {"cpus": "0-15", "numa": "1"} for name in names},
        "nic_names": {card: f"mlx5_{card[3:]}" for card in cards},
        "complete": True,
    }


FAULT = {
    "id": "topo.pairs",
    "verdict": "fail",
    "expected": "NV18 between every two GPUs",
    "observed": "GPU0 to GPU1: NV17",
    "remedy": "see which links are down",
    "marks": [["GPU1", "GPU0"]],
}


def test_the_table_marks_what_is_wrong_in_both_directions() -> None:
    topo = machine(2, 1)
    topo["cells"]["GPU0"]["GPU1"] = topo["cells"]["GPU1"]["GPU0"] = "NV17"
    assert table_lines(topo, [FAULT]) == [
        "      GPU0   GPU1   NIC0  NUMA",
        "GPU0  X      NV17!  PIX   1",
        "GPU1  NV17!  X      PIX   1",
        "  NIC0=mlx5_0",
        "  NV17: 17 NVLinks",
        "  PIX: over one PCIe bridge",
        "  !: not what the hardware profile expects",
    ]


def test_the_table_tells_what_is_not_known_and_what_differs() -> None:
    topo = machine(3)
    del topo["cells"]["GPU2"]
    del topo["cells"]["GPU1"]["GPU2"]
    topo["cells"]["GPU1"]["GPU0"] = "SYS"
    topo["affinity"] = {}
    lines = table_lines(topo)
    assert lines[1].split() == ["GPU0", "X", "NV18/SYS", "NV18", "-"]
    assert lines[3].split() == ["GPU2", "NV18", "?", "X", "-"]
    assert lines[-2:] == ["  ?: could not be read", "  /: the two directions differ"]
    assert table_lines({}) == ["no GPU in the matrix"]


def test_a_mark_of_a_check_that_did_not_fail_is_none() -> None:
    assert "!" not in "".join(table_lines(machine(2), [FAULT | {"verdict": "could_not_check"}]))


@pytest.mark.parametrize(("gpus", "nics"), [(1, 0), (1, 4), (2, 0), (8, 0), (8, 16), (16, 16), (0, 0)])
def test_the_picture_holds_everything_inside_its_frame(gpus: int, nics: int) -> None:
    root = ET.fromstring(svg(machine(gpus, nics), [FAULT], "GPU topology of h1"))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [box for box in root.iter(f"{SVG}rect") if "cell" in box.attrib["class"]]
    assert len(boxes) == gpus * (gpus + nics)
    for box in boxes:
        assert float(box.attrib["x"]) + float(box.attrib["width"]) <= width
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["y"]) <= height
        assert 0 <= float(text.attrib["x"]) <= width
    places = [(box.attrib["x"], box.attrib["y"]) for box in boxes]
    assert len(set(places)) == len(places)


def test_the_picture_says_in_words_what_it_shows() -> None:
    root = ET.fromstring(svg(machine(2, 1), [FAULT], "GPU topology of h1"))
    name, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert name is not None
    assert description is not None
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"].split() == [name.attrib["id"], description.attrib["id"]]
    assert "GPU0 to GPU1: NV17; see which links are down" in str(description.text)
    told = [title.text for title in root.iter(f"{SVG}title")]
    assert "GPU0 to GPU1: NV18, 18 NVLinks, wrong" in told
    assert "GPU0 to NIC0: PIX, over one PCIe bridge" in told
    wrong = [box for box in root.iter(f"{SVG}rect") if "wrong" in box.attrib["class"]]
    assert len(wrong) == 2


def test_the_picture_needs_nothing_else_and_is_readable_on_both_grounds() -> None:
    picture = svg(machine(2), [], "t")
    assert "prefers-color-scheme: dark" in picture
    assert "<script" not in picture
    assert "href" not in picture
    assert "url(" not in picture


HOSTILE = st.text(max_size=30) | st.sampled_from(
    ["</svg><script>alert(1)</script>", '" onload="x', "&amp;", "\x00\x1b[4m"]
)


@examples(80)
@given(HOSTILE, HOSTILE, HOSTILE)
def test_what_came_out_of_a_capture_stays_text(title: str, device: str, observed: str) -> None:
    topo = machine(2, 1)
    topo["nic_names"]["NIC0"] = device
    topo["affinity"]["GPU0"]["numa"] = observed
    topo["cells"]["GPU0"]["GPU1"] = topo["cells"]["GPU1"]["GPU0"] = device or "NV18"
    root = ET.fromstring(svg(topo, [FAULT | {"observed": observed}], title))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg",
        "title",
        "desc",
        "style",
        "rect",
        "text",
        "g",
    }
    assert not any(name.startswith("on") for element in root.iter() for name in element.attrib)
    table_lines(topo, [FAULT])
