# SPDX-License-Identifier: Apache-2.0
"""The documentation site in a browser: quiet, alone, as wide as the screen; searched from a server and from a disk."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Chromium

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(900)  # the site is built first

PHONE, DESK = 360, 1280
PAGES = (
    "index.html",
    "plan.html",
    "troubleshooting.html",
    "reference/inventory.html",
    "reference/modules/observe.html",
)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` builds."""
    directory = tmp_path_factory.mktemp("documentation")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(directory)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Requests are the browser's to tell."""


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The site, served on this machine."""
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=os.fspath(site))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def complaints(browser: Chromium) -> list[object]:
    return [*browser.happened("Log.entryAdded"), *browser.happened("Runtime.exceptionThrown")] + [
        one for one in browser.happened("Runtime.consoleAPICalled") if one["type"] in {"error", "warning", "assert"}
    ]


def asked(browser: Chromium) -> list[str]:
    """Addresses that were asked for, but for what a page carries within itself."""
    urls = [one["request"]["url"] for one in browser.happened("Network.requestWillBeSent")]
    return [url for url in urls if not url.startswith(("data:", "blob:"))]


def find(browser: Chromium, words: str) -> list[str]:
    """The pages that the search finds, best first."""
    browser.evaluate("document.querySelector('#__search').click()")
    browser.evaluate(
        "(() => { const field = document.querySelector('[data-md-component=search-query]');"
        f"field.focus(); field.value = {words!r};"
        "field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })()"
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found: list[str] = browser.evaluate(
            "[...document.querySelectorAll('.md-search-result__link')].map(one => one.href)"
        )
        if found:
            return found
        time.sleep(0.2)
    return []


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_quiet_alone_and_as_wide_as_the_screen(
    browser: Chromium, address: str, page: str, width: int
) -> None:
    browser.open(address + page, width=width, dark=False)
    assert complaints(browser) == []
    assert [url for url in asked(browser) if not url.startswith(address)] == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("document.querySelector('h1').innerText.length") > 3


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_search_finds_a_page(browser: Chromium, address: str, width: int) -> None:
    browser.open(f"{address}index.html", width=width, dark=True)
    found = find(browser, "firstlight_exposed_ok")
    assert any("reference/inventory.html" in url for url in found), found
    assert complaints(browser) == []
    assert [url for url in asked(browser) if not url.startswith(address)] == []


def test_the_search_works_from_a_disk(browser: Chromium, site: Path) -> None:
    browser.open((site / "index.html").as_uri(), width=DESK, dark=False)
    found = find(browser, "firstlight_exposed_ok")
    assert any("reference/inventory.html" in url for url in found), found
    assert complaints(browser) == []
    assert [url for url in asked(browser) if not url.startswith("file:")] == []
