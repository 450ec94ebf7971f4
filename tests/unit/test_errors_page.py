# SPDX-License-Identifier: Apache-2.0
"""Every error is known by name, explained on a page, and tried by a test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from scripts.errors_page import all_errors, page

ROOT = Path(__file__).resolve().parents[2]


def added(path: Path) -> Iterator[str]:
    """Identifiers that a file refuses with."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add":
            first = node.args[0] if len(node.args) == 4 else None
            choices = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
            yield from (str(one.value) for one in choices if isinstance(one, ast.Constant))


def test_nothing_is_refused_under_a_name_that_is_not_explained() -> None:
    sources = [*(ROOT / "plugins" / "plugin_utils").rglob("*.py"), *(ROOT / "src").rglob("*.py")]
    used = {identifier for path in sources for identifier in added(path)}
    assert len(used) > 40
    assert used <= all_errors().keys()


def test_the_page_is_the_generated_one() -> None:
    """Write it anew with: python -m scripts.errors_page."""
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == page()


def test_every_error_is_tried_by_a_test() -> None:
    own = Path(__file__).resolve()
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.resolve() != own)
    assert [identifier for identifier in all_errors() if f'"{identifier}"' not in tests] == []
