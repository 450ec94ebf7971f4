# SPDX-License-Identifier: Apache-2.0
"""The page of what was evaluated."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.check import make_check
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.page import html

VOID = {"meta", "br"}
TOPO: dict[str, Any] = {
    "gpus": ["GPU0", "GPU1"],
    "nics": [],
    "cells": {"GPU0": {"GPU1": "NV17"}, "GPU1": {"GPU0": "NV17"}},
    "affinity": {},
    "nic_names": {},
    "complete": True,
}


class Page(HTMLParser):
    """The page as a reader sees it; it insists that what is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.rows: list[str] = []
        self.words = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name in ("href", "src") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "tr" in self.open:
            self.rows[-1] += data + " "
        if "style" not in self.open:
            self.words += data


def document(**changes: Any) -> dict[str, Any]:
    checks = [
        make_check("gpu.count", "pass", "2 GPUs", "2 GPUs", source="topo.txt", host="h1"),
        make_check("fabric.state", "not_applicable", "nothing", "no fabric", source="q.txt", host="h1"),
        make_check("kernel.xid", "could_not_check", "no Xid", "the file is empty", "capture it again", source="k.txt"),
        make_check(
            "topo.pairs", "fail", "NV18", "NV17", "look at it", source="topo.txt", host="h1", command="nvidia-smi -pm 1"
        )
        | {"marks": [["GPU0", "GPU1"]]},
    ]
    return {"hardware": "h100-sxm-8", "checks": checks, "parsed": {"topo.txt": {"topo": TOPO}}, **changes}


def test_wrong_comes_first_then_what_could_not_be_checked() -> None:
    page = Page(html(document()))
    order = [
        next(name for name in ("topo.pairs", "kernel.xid", "gpu.count", "fabric.state") if name in row)
        for row in page.rows[1:]
    ]
    assert order == ["topo.pairs", "kernel.xid", "gpu.count", "fabric.state"]
    assert "nvidia-smi -pm 1" in page.rows[1]
    assert "GPU checks against h100-sxm-8" in page.words


def test_verdicts_are_counted() -> None:
    words = " ".join(Page(html(document())).words.split())
    for counted in ("1 wrong", "1 could not check", "1 right", "1 not applicable"):
        assert counted in words


def test_the_topology_is_drawn_with_its_marks() -> None:
    text = html(document())
    assert text.count("<svg ") == 1
    assert 'class="cell wrong"' in text
    assert "GPU topology of h1" in text


def test_a_page_of_nothing() -> None:
    page = Page(html({}))
    assert "Nothing was checked." in page.words
    assert "svg" not in page.tags
    Page(html({"checks": [], "parsed": {"x": {"topo": {}}, "y": None}, "hardware": None}))


def test_what_came_out_of_a_capture_stays_text() -> None:
    bad = "</td><script>alert(1)</script>\x1b[4m<img src=x onerror=y>"
    check = make_check(bad, "fail", {"a": bad}, [bad], bad, source=bad, host=bad, command=bad)
    topo = TOPO | {"nics": [bad], "nic_names": {bad: bad}}
    page = Page(html({"hardware": bad, "checks": [check, check | {"verdict": bad}], "parsed": {bad: {"topo": topo}}}))
    assert "script" not in page.tags
    assert "img" not in page.tags
