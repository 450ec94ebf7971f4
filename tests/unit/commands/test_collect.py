# SPDX-License-Identifier: Apache-2.0
"""`firstlight collect` on hosts that are on this machine, or nowhere, as Ansible itself runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from firstlight.cli import build_parser
from firstlight.commands.collect import settings
from firstlight.errors import UsageError
from firstlight.playbooks import PLAYBOOKS, playbook_words

pytestmark = pytest.mark.slow  # a run of Ansible each

ROOT = Path(__file__).resolve().parents[3]


def collect(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("firstlight")), "collect", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_the_playbook_gets_what_the_command_was_given() -> None:
    arguments = build_parser("collect").parse_args(
        ["collect", "-i", "inventory/lab", "--anonymous", "--limit", "spark1", "-e", "x=1", "--timeout", "5"]
    )
    words = playbook_words("collect.yml", arguments, settings(arguments, Path("/tmp/there")))
    assert words[:5] == [str(PLAYBOOKS / "collect.yml"), "-i", "inventory/lab", "--limit", "spark1"]
    assert words[5:8] == ["-e", "x=1", "-e"]
    assert json.loads(words[8]) == {
        "collect_directory": "/tmp/there",
        "collect_anonymous": True,
        "collect_timeout": 5,
    }
    assert Path(words[0]).is_file()


def test_a_directory_in_use_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = collect("-i", "inventory/spark4", "-o", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "name another one" in done.stderr


@pytest.mark.parametrize("wrong", ["0", "x", "-1", "99999"])
def test_a_time_limit_is_a_number_of_seconds(wrong: str) -> None:
    with pytest.raises(UsageError, match="seconds from 1 to 3600"):
        build_parser("collect").parse_args(["collect", "-i", "x", f"--timeout={wrong}"])


@pytest.mark.extended  # the lab is collected by tests/e2e/single_node
def test_one_host_answers_and_another_does_not(tmp_path: Path) -> None:
    """This machine stands for a host; whatever its tools say, or that it has none, is collected."""
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        json.dumps(
            {
                "cluster": {
                    "vars": {"firstlight_hardware": "h200-sxm-1", "ansible_become": False},
                    "children": {
                        "head": {
                            "hosts": {
                                "here": {
                                    "ansible_connection": "local",
                                    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
                                }
                            }
                        },
                        "workers": {"hosts": {"gone": {"ansible_host": "127.0.0.1", "ansible_port": 1}}},
                    },
                }
            }
        )
    )
    done = collect("-i", str(inventory), "-o", str(tmp_path / "out"), "--timeout", "10", "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "of 1 of 2 hosts are in" in done.stderr
    assert list(json.loads(done.stdout)["silent"]) == ["gone"]
    hosts = json.loads((tmp_path / "out" / "manifest.json").read_text())["hosts"]
    assert set(hosts) == {"here", "gone"}
    assert hosts["gone"]["error"].startswith("the host does not answer")
    assert hosts["here"]["hardware"] == "h200-sxm-1"
    assert {"smi-list.txt", "topo.txt"} <= set(hosts["here"]["files"])
    assert {path.name for path in (tmp_path / "out" / "here").iterdir()} == set(hosts["here"]["files"])
