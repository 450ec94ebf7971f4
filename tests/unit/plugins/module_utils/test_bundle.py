# SPDX-License-Identifier: Apache-2.0
"""One text of several modules runs where nothing of this project is."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils import units
from ansible_collections.firstlight.cluster.plugins.module_utils.bundle import bundle
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.program import program as workload
from ansible_collections.firstlight.cluster.plugins.module_utils.keeper.bundle import program as keeper
from ansible_collections.firstlight.cluster.plugins.module_utils.metrics.bundle import program as metrics

ROOT = units.__name__.rpartition(".")[0]


@pytest.mark.parametrize("program", [workload, keeper])
def test_a_program_is_always_the_same_text_and_imports_only_the_standard_library(program) -> None:  # type: ignore[no-untyped-def]
    text = program()
    assert text == program()
    parts = ast.literal_eval(text[text.index("PARTS = [") + len("PARTS = ") : text.index("\nfor name, source")])
    names = {name for name, _ in parts}
    assert len(names) == len(parts)
    for _, source in parts:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                roots = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                roots = {str(node.module).partition(".")[0]}
            else:
                continue
            assert roots <= sys.stdlib_module_names | {"torch"}


@pytest.mark.parametrize("program", [workload, keeper, metrics])
def test_a_program_has_every_part_that_its_syntax_trees_import_before_it(program) -> None:  # type: ignore[no-untyped-def]
    text = program()
    parts = ast.literal_eval(text[text.index("PARTS = [") + len("PARTS = ") : text.index("\nfor name, source")])
    before: set[str] = set()
    for name, source in parts:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = ".".join([*name.split(".")[: -node.level], *filter(None, [node.module])])
                assert {base} <= before or {f"{base}.{alias.name}" for alias in node.names} <= before, (name, base)
        before.add(name)


@pytest.mark.parametrize("name", ["keeper", "metrics"])
def test_a_program_is_put_together_without_importing_it(name: str) -> None:
    package = f"{ROOT}.{name}"
    code = f"from {package}.bundle import program; import sys; program(); print('{package}.main' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.slow  # Ansible's imports
def test_ansible_s_own_loader_gives_the_same_text() -> None:
    """It hands out bytes where Python's has text."""
    collections = str(Path(__file__).parents[5] / "collections")
    code = (
        "from ansible.plugins.loader import init_plugin_loader\n"
        f"init_plugin_loader([{collections!r}])\n"
        f"from {ROOT}.keeper.bundle import program\n"
        f"from {ROOT}.metrics.bundle import program as metrics\n"
        "print(program() + metrics(), end='')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == keeper() + metrics()


def test_names_in_brackets_and_other_names_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tops" / "inner"
    package.mkdir(parents=True)
    for path, text in {
        "__init__.py": "",
        "one.py": "def one(): pass\n",
        "two.py": "if True:\n    from .one import one\n",
        "three.py": "from . import (  # why\n    one as first,\n    two,\n)\ndef main(): print(first, two)\n",
    }.items():
        (package / path).write_text(text)
    (package.parent / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    text = bundle("tops.inner.three", "tops", "It.")
    assert [text.index(f"('inner.{name}', (") for name in ("one", "two", "three")] == sorted(
        text.index(f"('inner.{name}', (") for name in ("one", "two", "three")
    )
    done = subprocess.run([sys.executable, "-I", "-c", text], capture_output=True, text=True, check=True)
    assert "firstlight.inner.one" in done.stdout


def test_a_traceback_names_the_part_and_its_line(tmp_path: Path) -> None:
    path = tmp_path / "keeper.py"
    path.write_text(
        keeper().replace("    chosen = parse_arguments(arguments)", "    chosen = parse_nothing(arguments)")
    )
    done = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'File "keeper/main.py", line' in done.stderr


def test_a_part_that_imports_absolutely_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a relative import"):
        bundle(units.__name__, ROOT, "It.")
    with pytest.raises(ValueError, match="is not below elsewhere"):
        bundle(units.__name__, "elsewhere", "It.")
