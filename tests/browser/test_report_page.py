# SPDX-License-Identifier: Apache-2.0
"""The page of a report in a browser: at the width of a phone and of a desk, light and dark."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.compare import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.document import make_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.page import render, render_comparison

from tests.browser.chromium import Chromium
from tests.unit import report_samples as samples

PHONE, DESK = 360, 1280
SCREENS = list(itertools.product((PHONE, DESK), (False, True)))
SERIOUS = ("serious", "critical")


def pages() -> dict[str, str]:
    right, sick = samples.right(), samples.sick()
    bare = samples.inputs(bench=None, bench_verdict=None, tune=None, layouts=None, quality=None)
    return {
        "right": render(right),
        "sick": render(make_document(samples.inputs(accepted=sick))),
        "wrong": render(sick),
        "one-host": render(samples.right("h100x8")),
        "not-run": render(make_document(bare)),
        "compared": render_comparison(right, sick, differences(right, sick)),
    }


@pytest.fixture(scope="session", params=["right", "sick", "wrong", "one-host", "not-run", "compared"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / f"{request.param}.html"
    path.write_text(pages()[request.param], encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_a_page_is_quiet_alone_and_as_wide_as_the_screen(browser: Chromium, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width=width, dark=dark)
    assert browser.happened("Log.entryAdded") == []
    assert browser.happened("Runtime.consoleAPICalled") == []
    assert browser.happened("Runtime.exceptionThrown") == []
    asked = [one["request"]["url"] for one in browser.happened("Network.requestWillBeSent")]
    assert asked == [page.as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")


@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_nothing_serious_is_in_the_way_of_anybody(
    browser: Chromium, axe: str, page: Path, width: int, dark: bool
) -> None:
    browser.open(page, width=width, dark=dark)
    # What is folded is read, too.
    browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    browser.evaluate(axe)
    found: list[dict[str, Any]] = json.loads(
        browser.evaluate("axe.run(document, {resultTypes: ['violations']}).then(one => JSON.stringify(one.violations))")
    )
    told = [(one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"]) for one in found
            if one["impact"] in SERIOUS]  # fmt: skip
    assert told == []


def test_the_skip_link_and_every_wide_table_can_be_reached_by_key(browser: Chromium, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(render(samples.right()), encoding="utf-8")
    browser.open(path, width=PHONE, dark=False)
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert browser.evaluate("document.activeElement.className") == "skip"
    wide = "[...document.querySelectorAll('*')].filter(one => one.scrollWidth > one.clientWidth + 1 && "
    wide += "['auto', 'scroll'].includes(getComputedStyle(one).overflowX))"
    assert browser.evaluate(f"{wide}.length") > 0
    assert browser.evaluate(f"{wide}.every(one => one.tabIndex === 0 && one.getAttribute('aria-label'))")
