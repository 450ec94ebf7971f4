# SPDX-License-Identifier: Apache-2.0
"""One text of several modules runs where nothing of this project is."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils import units
from ansible_collections.firstlight.cluster.plugins.module_utils.bundle import bundle
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.program import program as workload
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import COLLECTION, program

ROOT = units.__name__.rpartition(".")[0]
PROGRAMS = f"{COLLECTION}.plugins.plugin_utils.programs"


def supervisor() -> str:
    return program("supervisor")


def metrics() -> str:
    return program("monitoring")


@pytest.mark.parametrize("made", [workload, supervisor, metrics])
def test_a_program_is_always_the_same_text_and_imports_only_the_standard_library(made: Callable[[], str]) -> None:
    text = made()
    assert text == made()
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
            assert roots <= sys.stdlib_module_names | {"torch", "ansible_collections"}


@pytest.mark.parametrize("made", [workload, supervisor, metrics])
def test_a_program_has_every_part_that_its_syntax_trees_import_before_it(made: Callable[[], str]) -> None:
    text = made()
    parts = ast.literal_eval(text[text.index("PARTS = [") + len("PARTS = ") : text.index("\nfor name, source")])
    before: set[str] = set()
    for name, source in parts:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.level or str(node.module).startswith(COLLECTION)):
                above = name.split(".")[: -node.level] if node.level else []
                base = ".".join([*above, *filter(None, [str(node.module or "").removeprefix(f"{COLLECTION}.")])])
                assert {base} <= before or {f"{base}.{alias.name}" for alias in node.names} <= before, (name, base)
        before.add(name)


@pytest.mark.parametrize("role", ["supervisor", "monitoring"])
def test_a_program_is_put_together_without_importing_it(role: str) -> None:
    made = f"from {PROGRAMS} import program; import sys; program({role!r})"
    code = f"{made}; print('{COLLECTION}.roles.{role}.program.main' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.slow  # Ansible's imports
def test_ansible_s_own_loader_gives_the_same_text() -> None:
    """It hands out bytes where Python's has text."""
    collections = str(Path(__file__).parents[5] / "collections")
    code = (
        "from ansible.plugins.loader import init_plugin_loader\n"
        f"init_plugin_loader([{collections!r}])\n"
        f"from {PROGRAMS} import program\n"
        "print(program('supervisor') + program('monitoring'), end='')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == supervisor() + metrics()


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
    assert "tops.inner.one" in done.stdout


def test_a_traceback_names_the_part_and_its_line(tmp_path: Path) -> None:
    path = tmp_path / "supervisor.py"
    path.write_text(
        supervisor().replace("    chosen = parse_arguments(arguments)", "    chosen = parse_nothing(arguments)")
    )
    done = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'File "roles/supervisor/program/main.py", line' in done.stderr


def test_a_part_that_imports_from_elsewhere_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a part of"):
        bundle(f"{COLLECTION}.roles.supervisor.program.main", f"{COLLECTION}.roles", "It.")
    with pytest.raises(ValueError, match="is not below elsewhere"):
        bundle(units.__name__, "elsewhere", "It.")
