# SPDX-License-Identifier: Apache-2.0
"""The page of a report: whole, alone, readable without eyes, and true to its data."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.compare import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.document import make_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.page import (
    PageError,
    check,
    document_of,
    render,
    render_comparison,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import report_samples as samples
from tests.unit.examples import examples

VOID = {"meta", "br", "hr", "img", "input", "link"}
PARTS = ("verdict", "checks", "materials", "fabric", "start", "performance", "power", "changes", "data", "repeat")


class Reader(HTMLParser):
    """Every element with its attributes, and whether they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.problems: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return samples.right()


@pytest.fixture(scope="module")
def page(document: dict[str, Any]) -> str:
    return render(document)


def test_a_page_has_all_its_parts_and_is_small(page: str) -> None:
    read = Reader(page)
    assert read.problems == []
    assert read.open == []
    ids = [attributes["id"] for _, attributes in read.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    assert set(PARTS) <= set(ids)
    assert {attributes["href"] for attributes in read.named("a")} == {f"#{one}" for one in (*PARTS, "content")}
    assert len(page) < 400_000


def test_a_page_loads_and_runs_nothing(page: str) -> None:
    read = Reader(page)
    assert [one["type"] for one in read.named("script")] == ["application/json"]
    assert not {"link", "img", "iframe", "object", "embed", "form", "base"} & {tag for tag, _ in read.elements}
    assert "url(" not in page
    assert "@import" not in page
    policy = next(one["content"] for one in read.named("meta") if one.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy


def test_tables_have_captions_and_scopes(page: str) -> None:
    read = Reader(page)
    assert len(read.named("table")) == len(read.named("caption")) > 8
    assert all(one.get("scope") in ("col", "row") for one in read.named("th"))
    assert len(read.named("main")) == len(read.named("header")) == len(read.named("nav")) == 1


def test_a_status_is_a_word_and_a_symbol() -> None:
    page = render(samples.sick())
    for symbol, word in (("✓", "pass"), ("✗", "fail"), ("?", "not checked")):
        assert f'<span aria-hidden="true">{symbol}</span> {word}' in page


@pytest.mark.parametrize(
    ("silent", "said", "kernel"),
    [
        (0, "✓ the same on all nodes.", "6.17.0-1014-nvidia"),
        (1, "✓ the same on all nodes that answer.", "6.17.0-1014-nvidia"),
        (4, "? not known: no node answers.", "not known"),
    ],
)
def test_parts_are_shown_of_the_nodes_that_answer(silent: int, said: str, kernel: str) -> None:
    inputs = samples.inputs()
    for host in list(inputs.gathered["hosts"])[:silent]:
        inputs.gathered["hosts"][host] = {"observation": {}, "problem": "unreachable", "records": []}
    page = render(make_document(inputs))
    assert f'<tr><th scope="row">kernel</th><td></td>\n<td><code>{kernel}</code></td>' in page
    assert said in "".join(Reader(page).texts)


def test_parts_that_were_not_run_say_so_and_how() -> None:
    inputs = samples.inputs(bench=None, bench_verdict=None, tune=None, layouts=None, quality=None)
    gathered: Any = inputs.gathered
    gathered["bandwidth"] = False
    for part in gathered["hosts"].values():
        part["burn_in"] = ""
        part["serving"] = {}
    page = render(make_document(inputs))
    for command in ("bench", "tune", "quality"):
        assert f"To run it: <code>firstlight {command} -i inventory/mine</code>" in page
    for said in ("The throughput of the paths was not measured", "No start is on record", "no run is on record"):
        assert said in page
    assert "No report of this cluster was accepted before" in page


def test_a_report_of_an_earlier_release_names_no_empty_command() -> None:
    document = samples.right()
    document["startup"]["starts"] = []
    del document["how"]["start"]
    page = render(document)
    assert "No start is on record" in page
    assert "<code></code>" not in page


def test_layouts_are_held_against_the_one_with_the_fewest_gpus() -> None:
    layouts = copy.deepcopy(samples.LAYOUTS)
    layouts["layouts"].reverse()
    for order in (samples.LAYOUTS, layouts):
        page = "".join(Reader(render(make_document(samples.inputs(layouts=order)))).texts)
        text = page.partition("The same load on more GPUs")[2]
        assert "100%" in text.partition("TP 2")[2][:60]
        assert "67%" in text.partition("TP 4")[2][:60]


def test_the_data_is_in_the_page_and_proves_itself(page: str, document: dict[str, Any]) -> None:
    assert document_of(page) == json.loads(json.dumps(document))
    assert document_of(json.dumps(document)) == json.loads(json.dumps(document))
    found, problems = check(page)
    assert problems == []
    assert f'<pre id="report-sha256">{found}</pre>' in page


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"cluster":"mine"', '"cluster":"ours"', "not the one on the page"),
        ("661 TFLOP/s</span>", "999 TFLOP/s</span>", "does not match its data"),
        ('<p class="word s">Accepted', '<p class="word s">Perfect', "does not match its data"),
    ],
)
def test_a_page_that_was_changed_is_found_out(page: str, old: str, new: str, said: str) -> None:
    assert old in page
    _, problems = check(page.replace(old, new, 1))
    assert any(said in one for one in problems)


@pytest.mark.parametrize(
    "text", ["", "hello", "<html></html>", '{"kind": "other"}', "[]", '{"kind": "firstlight report"}']
)
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(PageError):
        document_of(text)
    with pytest.raises(PageError):
        check(text)


def test_two_reports_compared_are_a_page(document: dict[str, Any]) -> None:
    sick = samples.sick()
    read = Reader(render_comparison(document, sick, differences(document, sick)))
    assert read.problems == []
    assert "kernel.xid" in "".join(read.texts)
    assert "No differences" in render_comparison(document, document, [])


def _texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all texts in a document but those that name one of our own words."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key not in ("status", "kind", "group", "verdict", "decision", "format"):
                yield from _texts(one, (*path, key))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _texts(one, (*path, number))
    elif isinstance(value, str):
        yield path


@pytest.mark.hostile
@pytest.mark.slow  # makes whole pages
@given(
    st.sampled_from(
        ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><b>", "{{ 7 * 7 }}", "<!--"]
    )
)
@examples(5)
def test_a_hostile_text_in_every_field_comes_out_escaped(text: str) -> None:
    document = copy.deepcopy(samples.sick() | {"since": {"run": "r", "made": "m", "differences": [
        {"part": "p", "where": "w", "what": "w", "before": "b", "after": "a", "kind": "worse"}]}})  # fmt: skip
    plain = Reader(render(document))
    for path in list(_texts(document)):
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = text
    page = render(document)
    read = Reader(page)
    assert read.problems == []
    assert [tag for tag, _ in read.elements if tag in ("script", "img", "b")] == ["script"]
    assert {tag for tag, _ in read.elements} <= {tag for tag, _ in plain.elements}
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)
    assert text in "".join(read.texts)
    assert document_of(page) == document
