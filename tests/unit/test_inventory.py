# SPDX-License-Identifier: Apache-2.0
"""Reading an inventory: what cannot be read is one sentence, and standard output is for the plan."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from firstlight.cli import main

ROOT = Path(__file__).parents[2]


def example(tmp_path: Path) -> Path:
    """A copy of an example, to break."""
    return shutil.copytree(ROOT / "inventory" / "spark4", tmp_path / "broken")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ('{"ray_cluster_token": "hunter2', "YAML parsing failed"),
        ('ray_cluster_token="hunter2', "quotes or braces"),
        ('["hunter2"]', "a list"),
        ("/hunter2", "after @"),
        ("@/nowhere/vars.yml", "/nowhere/vars.yml"),
    ],
)
def test_extra_variables_that_are_none(capfd: pytest.CaptureFixture[str], given: str, why: str) -> None:
    arguments = ["plan", "-i", str(ROOT / "inventory" / "spark4"), "-e", "x=1", "-e", given, "--json"]
    assert main(arguments) == 2
    said = capfd.readouterr()
    (error,) = json.loads(said.out)["errors"]
    assert error["id"] == "inventory.unreadable"
    assert error["found"].startswith("number 2 of the extra variables cannot be read: ")
    assert why in error["found"]
    assert "hosts.yml" not in str(error)
    assert "hunter2" not in said.out + said.err
    assert said.err == ""


@pytest.mark.parametrize("name", ["hosts.yml", "group_vars/all.yml"])
def test_a_broken_file_is_one_sentence_with_its_place(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    inventory = example(tmp_path)
    (inventory / name).write_text("a: 1\nb: [\n" + "# a long file\n" * 500)
    assert main(["plan", "-i", str(inventory), "--json"]) == 2
    said = capfd.readouterr()
    (error,) = json.loads(said.out)["errors"]
    assert error["found"].startswith(f"{inventory / name}:")
    assert "YAML parsing failed" in error["found"]
    assert len(error["found"]) < len(str(inventory / name)) + 340
    assert said.err == ""


def test_a_reason_without_end_is_cut(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    inventory = example(tmp_path)
    (inventory / "group_vars" / "all.yml").write_text(f"firstlight_hardware: '{{{{ {'nowhere ' * 500} }}}}'\n")
    assert main(["plan", "-i", str(inventory), "--json"]) == 2
    assert len(json.loads(capsys.readouterr().out)["errors"][0]["found"]) < 400


def test_whatever_ansible_says_is_not_in_the_plan() -> None:
    command = [str(Path(sys.executable).with_name("firstlight")), "plan", "-i", "inventory/h100x4", "--json"]
    loud = {**os.environ, "ANSIBLE_DEBUG": "1"}
    done = subprocess.run(command, cwd=ROOT, env=loud, check=True, capture_output=True)
    assert json.loads(done.stdout)["errors"] == []
    assert b"inventory source" in done.stderr


@pytest.mark.slow  # the command in a process of its own, elsewhere
def test_elsewhere_pinned_host_keys_are_no_inventory(tmp_path: Path) -> None:
    inventory = example(tmp_path)
    (inventory / "known_hosts").write_text("spark-1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAwm\n")
    program = str(Path(sys.executable).with_name("firstlight"))
    done = subprocess.run(
        [program, "plan", "-i", str(inventory)], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
