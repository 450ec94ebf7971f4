# SPDX-License-Identifier: Apache-2.0
"""The commands for new machines are the same in the README and on their page, which the lab follows to the end."""

from __future__ import annotations

import re
from pathlib import Path

from firstlight.cli import build_parser

ROOT = Path(__file__).resolve().parents[2]


def commands(text: str) -> list[str]:
    return re.findall(r"^\$ (.*)$", text, re.MULTILINE)


def test_the_readme_has_the_commands_of_the_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## New machines\n")[2].partition("\n## ")[0]
    page = (ROOT / "docs" / "new-rack.md").read_text(encoding="utf-8")
    assert commands(section) == commands(page)
    for line in commands(page):
        program, *words = line.partition(" 3< ")[0].split()
        if program == ".venv/bin/firstlight":
            assert build_parser(words[0]).parse_args(words).command == words[0]
