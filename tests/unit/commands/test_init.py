# SPDX-License-Identifier: Apache-2.0
"""`firstlight init`: every kind plans as it is written."""

from __future__ import annotations

import configparser
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstlight.cli import main
from firstlight.commands.init import KINDS, SCAFFOLD
from tests.unit.ansible_runs import run_inventory

ROOT = Path(__file__).resolve().parents[3]
HOSTS = {"spark2": 2, "spark4": 4, "spark8": 8, "spark-racks": 8, "h100x4": 1, "h100x8": 1, "h200x8": 1}
PINNED = "n1,10.0.0.1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAwm\n"
EXAMPLES = ("spark4", "h100x4", "h100x8")


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def yamllint(place: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """What the program of that name ends with, with the settings of the checkout, in this process."""
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as end:
        import_module("yamllint.cli").run(["-s", str(place)])
    return end.value.code


def test_every_kind_has_its_files() -> None:
    assert sorted(path.name for path in SCAFFOLD.iterdir() if path.is_dir()) == sorted(KINDS) == sorted(HOSTS)


def settings(path: Path) -> dict[tuple[str, str], str]:
    parser = configparser.ConfigParser()
    parser.read(path, encoding="utf-8")
    return {(section, key): value for section in parser.sections() for key, value in parser[section].items()}


def test_ansible_is_told_the_same_as_in_the_checkout(tmp_path: Path) -> None:
    assert main(["init", "spark2", str(tmp_path)]) == 0
    of_checkout = {("defaults", "collections_path"), ("defaults", "roles_path"), ("defaults", "inventory")}
    own, checkout = settings(tmp_path / "ansible.cfg"), settings(ROOT / "ansible.cfg")
    assert own.pop(("defaults", "inventory")) == "."
    assert own == {place: value for place, value in checkout.items() if place not in of_checkout}


def test_it_says_where_the_settings_are_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "spark2", "mine"]) == 0
    assert f"Run Ansible in mine, or with ANSIBLE_CONFIG={tmp_path}/mine/ansible.cfg" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path / "mine")
    assert main(["init", "spark2", "other"]) == 0
    assert "ANSIBLE_CONFIG" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_it_plans_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "mine"
    assert main(["init", kind, str(directory)]) == 0
    told = capsys.readouterr().out
    assert f"firstlight plan -i {directory}" in told
    assert str(directory / "rack.yml") in told
    assert main(["plan", "-i", str(directory), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["errors"] == []
    assert document["missing_inputs"] == []
    assert read(ROOT / "catalog" / "models" / f"{document['cluster']['model']}.yml")["licence"] in ("Apache-2.0", "MIT")
    assert document["fit"]["fits"]
    assert len(document["hosts"]) == HOSTS[kind]
    assert any(note.startswith("Rack a can give") for note in document["notes"])


@pytest.mark.slow  # Ansible's own program, once for each kind
@pytest.mark.parametrize("kind", KINDS)
def test_ansible_shows_it(kind: str) -> None:
    done = run_inventory("-i", str(SCAFFOLD / kind), "--graph")
    assert done.returncode == 0, done.stderr
    assert "@rack_a:" in done.stdout


def test_the_files_are_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    assert yamllint(SCAFFOLD, monkeypatch) == 0


@pytest.mark.parametrize("kind", EXAMPLES)
def test_it_wants_what_the_example_wants(kind: str) -> None:
    """One text for the two would have to be one file; so they are held together here."""
    example = read(ROOT / "inventory" / kind / "group_vars" / "all.yml")
    (rack,) = read(SCAFFOLD / kind / "rack.yml")["racks"]
    assert read(SCAFFOLD / kind / "group_vars" / "all.yml") | {"firstlight_hardware": rack["hardware"]} == example


def test_nothing_is_written_over(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("mine")
    assert main(["init", "spark4", str(tmp_path)]) == 2
    assert "is not empty, it has hosts.yml; expected a new or empty directory" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.yml"]
    assert main(["init", "spark4", str(tmp_path / "hosts.yml")]) == 2
    assert "is a file" in capsys.readouterr().err


def test_an_empty_directory_will_do(tmp_path: Path) -> None:
    assert main(["init", "h100x8", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ansible.cfg", "group_vars", "rack.yml"]


def test_a_program_gets_the_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["init", "spark4", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "spark4"
    assert sorted(told["files"]) == sorted(str(path) for path in tmp_path.rglob("*") if path.is_file())


def test_another_kind_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["init", "spark5", str(tmp_path / "mine")]) == 2
    assert "invalid choice: 'spark5'" in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()


def write_nodes(path: Path, count: int, **changed: Any) -> Path:
    nodes = [
        {"name": f"n{number}", "address": f"10.0.0.{number}", "serial": f"S{number}", "position": number} | changed
        for number in range(1, count + 1)
    ]
    path.write_text(yaml.safe_dump({"nodes": nodes}))
    return path


@pytest.mark.slow  # yamllint, and a plan
@pytest.mark.parametrize("kind", KINDS)
def test_nodes_that_were_found_plan_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    nodes = str(write_nodes(tmp_path / "nodes.yml", HOSTS[kind]))
    directory = tmp_path / "mine"
    directory.mkdir()
    (directory / "known_hosts").write_text(PINNED)
    key = tmp_path / "cluster.pub"
    assert main(["init", kind, str(directory), "--nodes", nodes, "--user", "operator", "--key", str(key)]) == 0
    told = capsys.readouterr().out
    assert "as no driver identified them: n1" in told
    assert "No host key is pinned" not in told
    assert (directory / "known_hosts").read_text() == PINNED
    variables = read(directory / "group_vars" / "all.yml")
    assert (variables["ansible_user"], variables["ansible_become"]) == ("operator", True)
    assert variables["ansible_ssh_private_key_file"] == str(tmp_path / "cluster")
    wanted = read(SCAFFOLD / kind / "group_vars" / "all.yml")
    assert {key: variables[key] for key in wanted if key != "ansible_user"} == {
        key: value for key, value in wanted.items() if key != "ansible_user"
    }
    assert yamllint(directory, monkeypatch) == 0
    assert main(["plan", "-i", str(directory), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["errors"] == []
    assert len(document["hosts"]) == HOSTS[kind]


def test_a_list_that_is_refused_leaves_no_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    directory = tmp_path / "mine"
    for given, message in (
        (write_nodes(tmp_path / "few.yml", 3), "has 3 nodes and spark4 is for 4"),
        (write_nodes(tmp_path / "twice.yml", 4, serial="S1"), "both have the serial S1"),
        (write_nodes(tmp_path / "what.yml", 4, hardware="gb11"), "catalog/hardware does not have"),
    ):
        assert main(["init", "spark4", str(directory), "--nodes", str(given)]) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "bad.yml").write_text("nodes: [")
    assert main(["init", "spark4", str(directory), "--nodes", str(tmp_path / "bad.yml")]) == 2
    assert "bad.yml is not YAML" in capsys.readouterr().err
    assert main(["init", "spark4", str(directory), "--nodes", str(tmp_path / "few.yml"), "--user", "a b"]) == 2
    assert main(["init", "spark4", str(directory), "--user", "operator"]) == 2
    assert "expected --nodes FILE with them" in capsys.readouterr().err
    assert not directory.exists()


def test_without_pinned_keys_bootstrap_comes_next(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nodes = str(write_nodes(tmp_path / "nodes.yml", 2, serial=None))
    assert main(["init", "spark2", str(tmp_path / "mine"), "--nodes", nodes, "--user", "operator"]) == 0
    told = capsys.readouterr().out
    assert "No host key is pinned there yet" in told
    assert "Without a serial, as it was not read: n1, n2" in told
