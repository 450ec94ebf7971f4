# SPDX-License-Identifier: Apache-2.0
"""A browser, and the rules that a page is evaluated by: both are fetched where they are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import PROGRAM, Chromium, chromium

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "browser"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """Debian's Chromium."""
    if shutil.which(PROGRAM) is None:
        assert os.geteuid() == 0, f"{PROGRAM} is missing, run this once: sudo apt-get install {PROGRAM}"
        subprocess.run(["apt-get", "update", "-qq"], check=True, timeout=300)
        subprocess.run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", PROGRAM], check=True, timeout=900)
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, the release that package-lock.json pins by its digest."""
    assert shutil.which("npm"), "npm is missing, run this once: sudo apt-get install npm"
    BUILD.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(HERE / name, BUILD / name)
    subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"],
        cwd=BUILD,
        check=True,
        timeout=300,
    )
    return (BUILD / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
