# SPDX-License-Identifier: Apache-2.0
"""`firstlight status` and `firstlight logs` on hosts that are this machine or nowhere, as Ansible runs them."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firstlight.ask_hosts import AskError, reason
from firstlight.cli import build_parser, main
from firstlight.commands import logs, status
from firstlight.playbooks import PLAYBOOKS, playbook_words

pytestmark = pytest.mark.slow  # a run of Ansible each

ROOT = Path(__file__).resolve().parents[3]
SERVES = {
    "at": "",
    "verdict": "serving",
    "why": "",
    "head": "a",
    "model": "m",
    "groups": {},
    "nodes": [],
    "lines": ["x"],
}


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    """A head that is this machine, and a worker that is nowhere."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    hosts = {
        "cluster": {
            "vars": {"ansible_become": False},
            "children": {
                "head": {"hosts": {"here": here}},
                "workers": {"hosts": {"gone": {"ansible_host": "127.0.0.1", "ansible_port": 1}}},
            },
        }
    }
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps(hosts), encoding="utf-8")
    return str(path)


def firstlight(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("firstlight"))
    return subprocess.run([program, *words], cwd=cwd, capture_output=True, text=True, check=False, timeout=100)


def test_a_host_that_does_not_answer_is_shown_beside_one_that_does(inventory: str, tmp_path: Path) -> None:
    done = firstlight("status", "-i", inventory, "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    here, gone = document["nodes"]
    assert document["head"] == "here"
    assert here["reachable"]
    assert here["memory"]["total"] > 0
    assert not gone["reachable"]
    # ssh may end before Ansible has written to it, which then says only that.
    assert any(told in gone["problems"][0] for told in ("Connection refused", "Broken pipe"))


def test_an_inventory_that_cannot_be_read_is_said_in_a_line() -> None:
    done = firstlight("status", "-i", "/nowhere")
    assert done.returncode == 2
    assert done.stderr.startswith("firstlight: the inventory /nowhere does not exist")
    assert done.stderr.count("\n") == 1


def parsed(*words: str) -> argparse.Namespace:
    return build_parser(words[0]).parse_args(list(words))


@pytest.mark.parametrize(("verdict", "rc"), [("serving", 0), ("not serving", 1), ("unknown", 3)])
def test_the_status_says_how_it_is(verdict: str, rc: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "ask", lambda *_: {**SERVES, "verdict": verdict})
    assert status.run(parsed("status", "-i", "x")) == rc


def test_nobody_who_can_be_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def ask(*_: Any) -> dict[str, Any]:
        raise AskError("no network")

    monkeypatch.setattr(status, "ask", ask)
    monkeypatch.setattr(logs, "ask", ask)
    assert main(["status", "-i", "x"]) == 3
    assert main(["logs", "-i", "x"]) == 3
    assert capsys.readouterr().err == "firstlight: no network\n" * 2


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_watching_shows_one_look_after_the_other(
    terminal: bool, options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until Ctrl-C; then the last look decides. A look that fails does not end it."""
    looks: list[dict[str, Any] | Exception] = [SERVES, AskError("no network"), {**SERVES, "verdict": "not serving"}]
    slept: list[int] = []

    def ask(*_: Any) -> dict[str, Any]:
        look = looks[len(slept)]
        if isinstance(look, Exception):
            raise look
        return dict(look)

    def sleep(seconds: int) -> None:
        slept.append(seconds)
        if len(slept) == len(looks):
            raise KeyboardInterrupt

    monkeypatch.setattr(status, "ask", ask)
    monkeypatch.setattr("firstlight.commands.status.time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert main(["status", "-i", "x", "--watch", "7", *options]) == 1
    told = capsys.readouterr()
    assert slept == [7, 7, 7]
    if options:
        assert [json.loads(line)["verdict"] for line in told.out.splitlines()] == ["serving", "not serving"]
    else:
        assert told.out.index("SERVING") < told.out.index("NOT SERVING")
    assert "no network" in told.out + told.err


def test_the_playbook_gets_what_the_command_was_given() -> None:
    arguments = parsed("logs", "-i", "inventory/lab", "-e", "x=1", "--limit", "a,b", "--since", "2h")
    words = playbook_words("logs.yml", arguments, logs.settings(arguments, {"a": "c"}))
    assert words[1:5] == ["-i", "inventory/lab", "--limit", "a,b"]
    assert json.loads(words[-1]) == {"logs_lines": 5000, "logs_since": "2 hours ago", "logs_cursors": {"a": "c"}}
    assert Path(words[0]).is_file()
    assert (PLAYBOOKS / status.PLAYBOOK).is_file()


def test_following_ends_and_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    now = [0.0]

    def ask(_playbook: str, _document: str, _arguments: object, own: dict[str, Any]) -> dict[str, Any]:
        asked.append(own)
        return {"entries": [], "cursors": {"a": str(len(asked))}, "silent": {}}

    monkeypatch.setattr(logs, "ask", ask)
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr("firstlight.commands.logs.time", clock)
    assert logs.run(parsed("logs", "-i", "x", "--follow", "--for", "10")) == 0
    assert [one.get("logs_cursors") for one in asked] == [None, {"a": "1"}, {"a": "2"}, {"a": "3"}]


def test_why_ansible_ended_is_one_line() -> None:
    assert reason("", "[WARNING]: x\nERROR! no such host\n") == "ERROR! no such host"
    assert reason("", "") == "ansible-playbook printed nothing"
