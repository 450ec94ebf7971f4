# SPDX-License-Identifier: Apache-2.0
"""The list of all commands, as a process of its own: it waits for no library."""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from firstlight.cli import COMMANDS, build_parser, main

ROOT = Path(__file__).resolve().parents[3]
HEAVY = (
    *("ansible", "jinja2", "paramiko", "openai", "grafana_foundation_sdk"),
    *("rich", "yaml", "firstlight.commands", "firstlight.console"),
)


def imported_by(*words: str) -> tuple[str, list[str]]:
    """What the command prints, and which of the heavy packages it has imported at its end."""
    code = (
        "import sys\nfrom firstlight.cli import main\n"
        "status = main(sys.argv[1:])\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), status, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True, text=True, timeout=60)
    found, _, status = done.stderr.strip().rpartition(" ")
    assert status == "0", done.stderr
    return done.stdout, found.strip("[]").replace("'", "").replace(",", "").split()


def test_help_lists_every_command_and_imports_none() -> None:
    shown, found = imported_by("--help")
    for name, text in COMMANDS.items():
        assert f"\n    {name} " in shown, name
        assert text.split(maxsplit=1)[0] in shown
    assert found == []


def test_the_version_names_ansible_and_python_and_imports_neither() -> None:
    shown, found = imported_by("--version")
    versions = (metadata.version("firstlight"), metadata.version("ansible-core"), platform.python_version())
    assert shown == "firstlight {} (ansible-core {}, Python {})\n".format(*versions)
    assert found == []


@pytest.mark.slow  # each command in a process of its own
@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_waits_for_nothing_that_only_a_run_needs(command: str) -> None:
    shown, found = imported_by(command, "--help")
    assert f"firstlight {command}" in shown
    assert not {"ansible", "jinja2", "paramiko", "openai", "grafana_foundation_sdk"} & set(found)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_imports_nothing_heavy(shell: str) -> None:
    shown, found = imported_by("completion", shell)
    assert "firstlight" in shown
    assert found == ["firstlight.commands"]


@pytest.mark.slow  # every command is imported
def test_every_command_of_the_list_is_there() -> None:
    commands = next(one for one in build_parser(*COMMANDS)._actions if isinstance(one, argparse._SubParsersAction))
    assert list(commands.choices) == list(COMMANDS)


@pytest.mark.parametrize("words", [["plam"], ["--", "fit"], []])
def test_what_is_no_command_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "usage: firstlight" in capsys.readouterr().err


@pytest.mark.slow  # each command in a process of its own
@pytest.mark.parametrize(
    "words",
    [
        ("plan",),
        ("repin", "--plan", "--stack", "spark-vllm-0.32"),
        ("ask", "--how"),
        ("monitoring", "-o", "{directory}"),
    ],
)
def test_a_process_that_only_reads_an_inventory_can_import_collections(words: tuple[str, ...], tmp_path: Path) -> None:
    """In a process of its own nothing else has prepared Ansible's way to import them."""
    code = "import sys\nfrom firstlight.cli import main\nsys.exit(main(sys.argv[1:]))\n"
    given = [word.format(directory=tmp_path) for word in words]
    command = [sys.executable, "-c", code, *given, "-i", str(ROOT / "inventory" / "spark4")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr
