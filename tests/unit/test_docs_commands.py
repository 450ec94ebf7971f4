# SPDX-License-Identifier: Apache-2.0
"""Every command of the pages that need no host is run as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from firstlight.cli import main
from tests.unit.ansible_runs import run_inventory, run_playbook

pytestmark = pytest.mark.slow  # every command of the pages is run

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *("command", "plan", "fit", "engines", "launch", "advice", "cost", "fabric-read", "diagnose", "racks"),
    "hardware-notes",
    "report",
)
REFUSED = "# refused"
"""Ends a line whose command is shown because it is refused, with status 2."""
WRONG = "# wrong"
"""Ends a line whose command is shown because it finds something wrong, with status 1."""


def shown(page: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```console\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [line.strip()[2:] for block in blocks for line in block.splitlines() if line.strip().startswith("$ ")]


def status_of(words: list[str]) -> int:
    """What a command of .venv/bin ends with, without a start of Python where that is nothing that a page tells."""
    program, *arguments = words
    if program == ".venv/bin/firstlight":
        return main(arguments)
    if program == ".venv/bin/ansible-playbook":
        done = run_playbook(*arguments)
    elif program == ".venv/bin/ansible-inventory":
        done = run_inventory(*arguments)
    else:
        words = [program.replace(".venv/bin", str(Path(sys.executable).parent)), *arguments]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100)
    print(done.stdout, done.stderr)
    return done.returncode


@pytest.mark.parametrize(("page", "line"), [(page, line) for page in PAGES for line in shown(page)])
def test_the_command_does_what_the_page_says(monkeypatch: pytest.MonkeyPatch, page: str, line: str) -> None:
    monkeypatch.chdir(ROOT)
    expected = 2 if line.endswith(REFUSED) else 1 if line.endswith(WRONG) else 0
    assert status_of(shlex.split(line, comments=True)) == expected
