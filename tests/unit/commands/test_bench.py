# SPDX-License-Identifier: Apache-2.0
"""`firstlight bench`: what the playbook is told, and the playbook itself as far as it goes without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from firstlight.cli import build_parser
from firstlight.commands.bench import exit_status, settings
from firstlight.errors import DONE, FAILED, OPEN, UsageError
from firstlight.playbooks import PLAYBOOKS, playbook_words
from tests.unit.ansible_runs import run_playbook

TINY = {
    "name": "tiny",
    "source": "this test",
    "date": "2026-11-18",
    "prompts": "random",
    "input": 16,
    "output": 8,
    "streams": [1, 2],
}


def test_the_playbook_gets_what_the_command_was_given() -> None:
    arguments = build_parser("bench").parse_args(
        [
            "bench",
            "-i",
            "inventory/lab",
            "--workload",
            "chat",
            "--workload",
            "batch",
            "--streams",
            "1,16",
            "--rate",
            "0.5",
        ]
        + ["--repeats", "2", "--through", "server", "--in-service", "tiny", "--new", "-e", "x=1"]
    )
    words = playbook_words("bench.yml", arguments, settings(arguments, Path("/tmp/figures.json")))
    assert words[0] == str(PLAYBOOKS / "bench.yml")
    assert Path(words[0]).is_file()
    assert json.loads(words[-1]) == {
        "bench_workloads": ["chat", "batch"],
        "bench_streams": [1, 16],
        "bench_rates": [0.5],
        "bench_repeats": 2,
        "bench_through": "server",
        "bench_in_service": "tiny",
        "bench_resume": "never",
        "bench_document": "/tmp/figures.json",
    }


def test_what_was_not_asked_for_is_left_to_the_inventory() -> None:
    arguments = build_parser("bench").parse_args(["bench", "-i", "inventory/lab"])
    assert settings(arguments, Path("/tmp/x")) == {"bench_document": "/tmp/x"}


@pytest.mark.parametrize("words", [["--streams=0"], ["--streams=a"], ["--rate=-1"], ["--rate=x"], ["--repeats=0"]])
def test_a_number_that_is_none_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        build_parser("bench").parse_args(["bench", "-i", "x", *words])


def test_go_on_and_begin_anew_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="not allowed with"):
        build_parser("bench").parse_args(["bench", "-i", "x", "--resume", "--new"])


@pytest.mark.parametrize(
    ("summary", "verdict", "status"),
    [
        ({"runs": 3}, "pass", DONE),
        ({"runs": 3}, "not measured", DONE),
        ({"runs": 3}, "slow", FAILED),
        (None, "slow", FAILED),
        (None, "not measured", OPEN),
    ],
)
def test_the_status_tells_slow_from_left_open(summary: object, verdict: str, status: int) -> None:
    document = {"workloads": [{"points": [{"summary": summary}]}]}
    assert exit_status(document, {"verdict": verdict}) == status


def play(tmp_path: Path, *words: str) -> tuple[int, str]:
    """The playbook in check mode, with this machine for the hosts: no lease is taken, nothing is run or removed."""
    (tmp_path / "workloads.yml").write_text(yaml.safe_dump([TINY]))
    chosen = {"firstlight_catalog": [str(tmp_path)], "ansible_connection": "local", "ansible_become": False}
    done = run_playbook(
        "playbooks/bench.yml",
        *("-i", "inventory/h100x4", "--check", "-e", json.dumps(chosen)),
        *words,
        environment={"XDG_STATE_HOME": str(tmp_path / "state")},
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.extended  # a run of Ansible; tests/e2e/serving measures
@pytest.mark.slow  # a run of Ansible
def test_check_mode_says_what_would_be_measured(tmp_path: Path) -> None:
    status, told = play(tmp_path, "-e", json.dumps({"bench_workloads": ["tiny"], "bench_in_service": "h100x4"}))
    assert status == 0, told
    assert "6 runs from" in told
    assert "tiny at 2 streams, run 3 of 3" in told
    assert not (tmp_path / "state").exists()


@pytest.mark.slow  # a run of Ansible
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"bench_conversations": "/not/there", "bench_workloads": ["conversations"]}, "/not/there cannot be used"),
        *(
            pytest.param(*refused, marks=pytest.mark.extended)  # the same run; the action's own tests have the reasons
            for refused in (
                ({"bench_workloads": ["tinny"]}, "did you mean tiny"),
                ({"bench_in_service": "somebody"}, "expected the name of the cluster or of its model"),
                ({"bench_resume": "always", "bench_workloads": ["tiny"]}, "has no unfinished benchmark"),
            )
        ),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_runs(
    tmp_path: Path, asked: dict[str, object], words: str
) -> None:
    status, told = play(tmp_path, "-e", json.dumps(asked))
    assert status != 0
    assert words in told


@pytest.mark.extended  # the same run as above, with another reason
@pytest.mark.slow  # a run of Ansible
def test_a_server_that_cannot_say_whether_it_is_used_is_not_measured(tmp_path: Path) -> None:
    status, told = play(tmp_path, "-e", json.dumps({"bench_workloads": ["tiny"], "bench_quiet_timeout": 0}))
    assert status != 0
    assert "The server is in use" in told
    assert "--in-service" in told
