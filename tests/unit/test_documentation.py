# SPDX-License-Identifier: Apache-2.0
"""The documentation site as it will be built, and what CONTRIBUTING promises of the tree."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstlight.cli import COMMANDS
from scripts import docs_hooks, reference

ROOT = Path(__file__).resolve().parents[2]
NAVIGATION = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]


@pytest.fixture(scope="module")
def generated() -> reference.Pages:
    return reference.pages()


def named(nav: Any) -> list[str]:
    """Every page that a navigation names."""
    if isinstance(nav, str):
        return [nav]
    return [name for one in (nav.values() if isinstance(nav, dict) else nav) for name in named(one)]


@pytest.mark.slow  # ansible-doc reads all of the collection
def test_every_page_has_one_place_in_the_navigation(generated: reference.Pages) -> None:
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    pages |= generated.keys() | set(docs_hooks.ELSEWHERE.values())
    places = named(docs_hooks.navigation(NAVIGATION, generated))
    assert sorted(places) == sorted(pages)


@pytest.mark.slow  # ansible-doc reads all of the collection
def test_every_plugin_and_role_is_in_the_reference(generated: reference.Pages) -> None:
    def there(kind: str) -> set[str]:
        return {path.stem for path in (ROOT / "plugins" / kind).glob("*.py")} - {"__init__"}

    modules = {f"reference/modules/{name}.md" for name in there("modules") | there("action")}
    assert modules <= generated.keys()
    assert {f"reference/roles/{name}.md" for name in reference.roles()} <= generated.keys()
    headings = re.findall(r"(?m)^## [\w ]+: (\w+)$", generated["reference/plugins.md"])
    assert {name for kind in reference.PLUGINS for name in there(kind)} == set(headings)


@pytest.mark.slow  # ansible-doc reads all of the collection
def test_the_reference_has_every_subcommand(generated: reference.Pages) -> None:
    for name in COMMANDS:
        assert f"## firstlight {name}\n" in generated["reference/command.md"]


def test_the_reference_leaves_the_environment_as_it_is() -> None:
    before = dict(os.environ)
    reference.command_page()
    assert dict(os.environ) == before


@pytest.mark.slow  # a site of one page is built
def test_make_docs_fails_where_a_link_is_dead_and_names_it(tmp_path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    command = re.search(r"(?m)^docs:.*\n.* python (-m mkdocs build.*)$", makefile)
    assert command
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    kept = {name: settings[name] for name in ("strict", "use_directory_urls", "validation")}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump({"site_name": "One page", **kept}), encoding="utf-8")
    page = tmp_path / "docs" / "index.md"
    page.parent.mkdir()
    for text, status in (("[here](#here)\n\n## Here\n", 0), ("[a](gone.md)\n", 1), ("[b](#nowhere)\n", 1)):
        page.write_text(f"# One page\n\n{text}", encoding="utf-8")
        build = [sys.executable, *shlex.split(command[1])]
        done = subprocess.run(build, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=100)
        assert done.returncode == status, done.stdout + done.stderr
        dead = re.search(r"gone\.md|#nowhere", text)
        assert dead is None or dead[0] in done.stderr


def test_every_inventory_variable_and_key_has_a_meaning() -> None:
    """Each has a row in a table of docs/, headed `meaning`; mostly in docs/plan.md."""
    told = reference.meanings()
    keys = reference.keys_of_mappings()
    assert len(keys) > 8
    missing = [name for name in reference.variables() if not told.get((name, ""), ("", ""))[1]]
    missing += [f"{name}.{key}" for name, listed in keys.items() for key in listed if (name, key) not in told]
    assert missing == []


@pytest.mark.parametrize(
    ("page", "written", "expected"),
    [
        ("plan.md", "[a](fit.md#what)", "[a](fit.md#what)"),
        ("plan.md", "[a](../README.md)", "[a](index.md)"),
        ("plan.md", "[a](../roles/endpoint/README.md)", "[a](reference/roles/endpoint.md)"),
        ("plan.md", "see [a rule](../catalog/hazards.yml)", "see a rule"),
        ("contributing.md", "[lab](docs/lab.md#x)", "[lab](lab.md#x)"),
        ("reference/roles/endpoint.md", "[a](../../docs/endpoint.md)", "[a](../../endpoint.md)"),
        ("decisions/README.md", "[a](../plan.md)", "[a](../plan.md)"),
        ("plan.md", "[a](https://host.example/x.md)", "[a](https://host.example/x.md)"),
        ("plan.md", "[dead](gone.md)", "[dead](gone.md)"),  # left for MkDocs to complain of
    ],
)
def test_links_of_the_checkout_lead_to_pages_of_the_site(page: str, written: str, expected: str) -> None:
    assert docs_hooks.relinked(written, page) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Words:\n- one\n- two\n", "Words:\n\n- one\n- two\n"),
        ("1. one\n\n   ```text\n   $ do\n   ```\n\n2. two\n", "1. one\n\n    ```text\n    $ do\n    ```\n\n2. two\n"),
        ("- one\n  more\n  - deep\n    deeper\n- two\n", "- one\n    more\n    - deep\n        deeper\n- two\n"),
        ("- one\n\nafter\n", "- one\n\nafter\n"),
        ("```yaml\nlist:\n  - one\n```\n", "```yaml\nlist:\n  - one\n```\n"),
    ],
)
def test_lists_are_indented_as_the_site_needs_them(written: str, expected: str) -> None:
    assert docs_hooks.indented(written) == expected


# --- CONTRIBUTING -----------------------------------------------------------------------------------------------------
def test_where_does_this_go_names_paths_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Where does this go?")[2].partition("\n## ")[0]
    rows = [row for row in re.findall(r"(?m)^\| (.+?) \| (.+?) \|$", section) if "---" not in row[0]][1:]
    assert len(rows) >= 10
    for question, answer in rows:
        paths = [one for one in re.findall(r"`([\w./-]+)`", answer) if "/" in one or one.endswith(".yml")]
        assert paths, question
        assert [path for path in paths if not (ROOT / path).exists()] == [], question


def test_the_hooks_run_every_linter_of_make_lint() -> None:
    linters = set(re.findall(r"(?m)^ *check (\S+)", (ROOT / "scripts/lint.sh").read_text(encoding="utf-8")))
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"], "another one would be downloaded"
    quick = {hook["id"]: hook for hook in hooks[0]["hooks"]}
    assert quick.pop("lint")["entry"] == "scripts/lint.sh --changed"
    assert quick.keys() <= linters
    for hook in quick.values():
        assert hook["entry"].startswith(".venv/bin/"), hook


def test_the_devcontainer_is_set_up_as_a_checkout_is() -> None:
    settings = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert settings["postCreateCommand"].startswith("make setup")
    assert (ROOT / ".devcontainer" / settings["build"]["dockerfile"]).is_file()


# --- README -----------------------------------------------------------------------------------------------------------
def test_pictures_of_pages_exist_and_fetch_nothing() -> None:
    for picture in sorted((ROOT / "docs").glob("*.svg")):
        text = picture.read_text(encoding="utf-8")
        assert not re.search(r"<script|@import|@font-face|(?:href|src)=|url\((?!#)", text), picture.name


def test_the_support_matrix_names_every_hardware_profile() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Support")[2].partition("\n## ")[0]
    profiles = {path.stem for path in (ROOT / "catalog/hardware").glob("*.yml")}
    assert {name for name in profiles if f"`{name}`" not in text} == set()
