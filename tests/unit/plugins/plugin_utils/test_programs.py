# SPDX-License-Identifier: Apache-2.0
"""The programs that roles install run where nothing of this project is."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils import units
from ansible_collections.firstlight.cluster.plugins.plugin_utils import zipapps
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import PATHS, program, program_digest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.zipapps import COLLECTION, closure, sources, zipapp

PROGRAMS = f"{COLLECTION}.plugins.plugin_utils.programs"
PACKAGE = units.__name__.rpartition(".")[0]


def contents(role: str) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(program(role))) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.mark.parametrize("role", list(PATHS))
def test_a_program_imports_only_itself_and_the_standard_library(role: str) -> None:
    for name, source in contents(role).items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                roots = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                roots = {str(node.module).partition(".")[0]}
            else:
                continue
            assert roots <= sys.stdlib_module_names | {"ansible_collections"}, name


@pytest.mark.parametrize("role", list(PATHS))
def test_a_program_has_every_module_that_its_syntax_trees_import(role: str) -> None:
    found = contents(role)
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in found}
    for path, source in found.items():
        name = path.removesuffix(".py").replace("/", ".")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.level or str(node.module).startswith(COLLECTION)):
                above = name.split(".")[: -node.level] if node.level else []
                base = ".".join([*above, *filter(None, [node.module])])
                assert base in modules, (path, base)
                if found.get(f"{base.replace('.', '/')}/__init__.py") == "":
                    assert {f"{base}.{alias.name}" for alias in node.names} <= modules, (path, base)


@pytest.mark.parametrize("role", list(PATHS))
def test_a_program_runs_from_one_file(role: str, tmp_path: Path) -> None:
    path = tmp_path / "program.pyz"
    path.write_bytes(program(role))
    done = subprocess.run(
        [sys.executable, "-I", str(path), "--help"], cwd=tmp_path, env={}, capture_output=True, text=True, check=True
    )
    assert f"usage: {os.path.basename(PATHS[role])}" in done.stdout


def test_a_program_is_put_together_without_importing_it() -> None:
    made = f"from {PROGRAMS} import program; import sys; program('supervisor')"
    code = f"{made}; print('{COLLECTION}.roles.supervisor.program.main' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.slow  # Ansible's imports
def test_every_controller_makes_the_same_file() -> None:
    """Another digest would restart every supervisor: neither the loader nor time, umask or zlib may change it."""
    collections = str(Path(__file__).parents[4] / "collections")
    code = (
        "import os, time\n"
        "os.umask(0o077)\n"
        "os.environ['TZ'] = 'Asia/Tokyo'\n"
        "time.tzset()\n"
        "from ansible.plugins.loader import init_plugin_loader\n"
        f"init_plugin_loader([{collections!r}])\n"
        f"from {PROGRAMS} import program_digest\n"
        "print(program_digest('supervisor'), program_digest('monitoring'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [program_digest("supervisor"), program_digest("monitoring")]
    for role in PATHS:
        with zipfile.ZipFile(io.BytesIO(program(role))) as archive:
            assert {one.compress_type for one in archive.infolist()} == {zipfile.ZIP_STORED}


def test_a_traceback_names_the_module_and_its_line(tmp_path: Path) -> None:
    entry = f"{COLLECTION}.roles.supervisor.program.main"
    files = sources([entry])
    name = entry.replace(".", "/") + ".py"
    files[name] = files[name].replace(b"chosen = parse_arguments(", b"chosen = parse_nothing(")
    path = tmp_path / "supervisor.pyz"
    path.write_bytes(zipapp({"__main__.py": f"from {entry} import main\nmain()\n".encode(), **files}))
    done = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'roles/supervisor/program/main.py", line' in done.stderr


def test_imports_in_every_form_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tops" / "inner"
    package.mkdir(parents=True)
    for name, text in {
        "__init__.py": "from .four import five\n",
        "one.py": "def one(): pass\n",
        "two.py": "if True:\n    from .one import one\n",
        "three.py": "from . import (  # why\n    one as first,\n    two,  # and\n)\ndef main(): print(first, two)\n",
        "four.py": "from tops.plain.five import five  # a name in it\n",
        "unused.py": "",
    }.items():
        (package / name).write_text(text)
    (tmp_path / "tops" / "plain").mkdir()
    (tmp_path / "tops" / "plain" / "five.py").write_text("five = 5\n")
    monkeypatch.setattr(zipapps, "COLLECTION", "tops")
    monkeypatch.setattr(zipapps, "ROOT", tmp_path / "tops")
    found = closure(["tops.inner.three"])
    assert set(found) == {
        *("tops", "tops.inner", "tops.inner.one", "tops.inner.two", "tops.inner.three", "tops.inner.four"),
        *("tops.plain", "tops.plain.five"),
    }
    assert (found["tops"], found["tops.plain"]) == (None, None)
    path = tmp_path / "it.pyz"
    main = b"from tops.inner.three import main\nmain()\n"
    path.write_bytes(zipapp({"__main__.py": main, **sources(["tops.inner.three"])}, compressed=True))
    done = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, check=True)
    assert "tops.inner.one" in done.stdout


def test_a_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there is no .*\.no_such_module: expected a module of"):
        closure([f"{PACKAGE}.no_such_module"])
