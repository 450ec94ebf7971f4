# SPDX-License-Identifier: Apache-2.0
"""What the collection says it needs, against what it imports; the execution environment that is made of it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent
ANSIBLES_OWN = {"ansible", "ansible_collections", "jinja2", "yaml"}
"""What is there wherever ansible-core is."""


def imported(path: Path) -> set[str]:
    """The packages outside of the standard library that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(str(node.module).partition(".")[0])
    return names - set(sys.stdlib_module_names)


@pytest.mark.slow  # reads every line of the plugins
def test_the_collection_imports_nothing_that_bare_ansible_core_has_not() -> None:
    found = {str(path.relative_to(ROOT)): imported(path) - ANSIBLES_OWN for path in (ROOT / "plugins").rglob("*.py")}
    # Of the extra `quality`, imported where answers are scored; without it they are compared all the same.
    assert found.pop("plugins/plugin_utils/quality/assessment.py") == {"sacrebleu", "rouge_score"}
    assert {path: names for path, names in found.items() if names} == {}


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=100).stdout


def read_yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_one_range_of_ansible_core_is_named_everywhere() -> None:
    """The wheel, the tarball, the collection's own statement and the execution environment."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    wanted = next(one for one in project if one.startswith("ansible-core"))
    assert wanted in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert wanted == read_yaml("execution-environment.yml")["dependencies"]["ansible_core"]["package_pip"]
    stated = re.sub(r"(\d+\.\d+)\.0", r"\1", read_yaml("meta/runtime.yml")["requires_ansible"])
    assert wanted == f"ansible-core{stated}"


@pytest.mark.extended  # some seconds, and it changes only with what is packed
@pytest.mark.slow  # copies the collection twice, and runs two programs
def test_an_execution_environment_is_made_of_this_checkout(tmp_path: Path) -> None:
    """As its Containerfile does: the collection out of the build context, then what that says it needs."""
    context, collections = tmp_path / "context", tmp_path / "collections"
    run(TOOLS / "ansible-builder", "create", "--context", str(context), "--output-filename", "Containerfile")
    assert 'ANSIBLE_INSTALL_REFS="ansible-core>=' in (context / "Containerfile").read_text(encoding="utf-8")
    # --force: the collection is installed in this environment already, in the one of the Containerfile it is not.
    install = ("collection", "install", "--force", "--offline", "-r", "requirements.yml", "-p", str(collections))
    run(TOOLS / "ansible-galaxy", *install, cwd=context / "_build")
    installed = collections / "ansible_collections" / "firstlight" / "cluster"
    about = json.loads((installed / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]
    assert about["version"] == read_yaml("galaxy.yml")["version"]
    assert {"catalog", "meta", "playbooks", "plugins", "roles"} <= {path.name for path in installed.iterdir()}
    needed = yaml.safe_load(run(TOOLS / "ansible-builder", "introspect", str(collections)))
    assert needed["python"] == [], "more than every execution environment has"
    assert any(one.startswith("openssh-client") for one in needed["system"])
