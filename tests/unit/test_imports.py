# SPDX-License-Identifier: Apache-2.0
"""Who imports whom in plugins/: packages form no cycle, and the vocabulary of state imports no subject."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLLECTION = "ansible_collections.firstlight.cluster."
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for side in ("module_utils", "plugin_utils")
    for path in ROOT.glob(f"plugins/{side}/**/*.py")
    if path.name != "__init__.py"
}


def imported(name: str) -> Iterator[str]:
    """The files of plugins/ that this one imports."""
    for node in ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            above = name.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])]).removeprefix(COLLECTION)
            for alias in node.names:
                yield from (one for one in (base, f"{base}.{alias.name}") if one in FILES)


def apart(one: str, other: str) -> bool:
    """Whether neither package is inside the other."""
    return not f"{one}.".startswith(f"{other}.") and not f"{other}.".startswith(f"{one}.")


def cycle_of(imports: dict[str, set[str]]) -> list[str]:
    """Packages that import each other, in order; empty without such ones."""
    packages: dict[str, set[str]] = {}
    for name, targets in imports.items():
        here = name.rpartition(".")[0]
        there = {target.rpartition(".")[0] for target in targets}
        packages.setdefault(here, set()).update(one for one in there if apart(here, one))
    try:
        TopologicalSorter(packages).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.slow  # parses every file of both sides
def test_no_package_imports_itself_by_way_of_others() -> None:
    assert cycle_of({name: set(imported(name)) for name in FILES}) == []


def test_a_cycle_is_noticed() -> None:
    assert cycle_of({"a.b.one": {"a.c.two"}, "a.c.other": {"a.b.three"}}) in (
        ["a.b", "a.c", "a.b"],
        ["a.c", "a.b", "a.c"],
    )
    assert cycle_of({"a.b.one": {"a.c.two", "a.plain"}, "a.plain": {"a.b.one"}}) == []


def test_the_vocabulary_of_state_imports_no_subject() -> None:
    assert set(imported("plugins.module_utils.state.vocabulary")) == {"plugins.module_utils.text"}
