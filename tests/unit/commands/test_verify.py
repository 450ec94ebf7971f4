# SPDX-License-Identifier: Apache-2.0
"""`firstlight verify` says word for word what playbooks/verify.yml says, without a playbook."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from firstlight.cli import build_parser
from firstlight.commands import verify
from firstlight.errors import FAILED, UsageError
from tests.unit.fake_ssh import GONE, words_of, write_ssh

ROOT = Path(__file__).resolve().parents[3]
FIRST, SECOND, LAST = "spark-alpha", "spark-beta", "spark-delta"


def program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=110)


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Four Sparks; three of them are this machine, which has nothing of what is planned, and one does not answer."""
    made = tmp_path / "spark4"
    shutil.copytree(ROOT / "inventory" / "spark4", made)
    hosts = yaml.safe_load((made / "hosts.yml").read_text(encoding="utf-8"))
    hosts["cluster"]["children"]["workers"]["hosts"][LAST]["ansible_host"] = GONE
    hosts["cluster"]["vars"] = {"ansible_ssh_executable": str(write_ssh(tmp_path)), "ansible_become": False}
    (made / "hosts.yml").write_text(yaml.safe_dump(hosts, sort_keys=False), encoding="utf-8")
    return made


def said(output: str) -> dict[str, list[str]]:
    """The lines of every host, in their order; the playbook prints others between them."""
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        host, _, text = line.strip().partition("  ")
        if line.startswith("  spark-") and not text.strip().startswith(("changed", "failed, ignored")):
            found.setdefault(host, []).append(text.strip())
    return found


class Asked:
    """A cluster with these variables, and what the playbook was told."""

    roles = ("fabric_network", "firewall")

    def __init__(self, variables: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.variables, self.words = variables, list[str]()
        monkeypatch.setattr("firstlight.looking.read", lambda _: self)
        monkeypatch.setattr("firstlight.playbooks.run_playbook", self.play)
        monkeypatch.setattr(verify, "use_own_settings", lambda: None)
        monkeypatch.setattr("gc.disable", lambda: None)

    def value(self, name: str) -> Any:
        return self.variables.get(name)

    def is_true(self, name: str) -> bool:
        return self.variables.get(name) in (True, "true")

    def is_set(self, name: str) -> bool:
        return self.variables.get(name) not in (None, "", False)

    def play(self, words: list[str], **_: Any) -> int:
        self.words = words
        report = self.told.get("verify_report")
        if report:
            Path(report).write_text('[{"id": "gpus"}]\n', encoding="utf-8")
        return FAILED

    @property
    def told(self) -> dict[str, Any]:
        """The variables of the command's own."""
        found: dict[str, Any] = json.loads(self.words[-1]) if self.words[-1].startswith("{") else {}
        return found


def verified(*words: str) -> int:
    return verify.run(build_parser("verify").parse_args(["verify", "-i", str(ROOT / "inventory/spark4"), *words]))


def test_the_playbook_looks_at_the_roles_and_its_records_are_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "mine.json"
    cluster = Asked({"verify_bandwidth": "true", "verify_report": str(report)}, monkeypatch)
    assert verified("--json", "--role", "fabric_network") == FAILED
    assert cluster.words[0].endswith("playbooks/verify.yml")
    assert cluster.told["verify_roles"] == ["fabric_network"]
    assert json.loads(capsys.readouterr().out) == [{"id": "gpus"}]
    assert json.loads(report.read_text(encoding="utf-8")) == [{"id": "gpus"}]
    assert verified() == FAILED
    assert cluster.told == {}, "its own words are for people, and a report is its own"


def test_pictures_are_drawn_by_the_playbook(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Asked({"verify_pictures": "pictures"}, monkeypatch)
    assert verified() == FAILED
    assert cluster.words


def test_an_unknown_role_is_refused_before_the_playbook(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Asked({"verify_bandwidth": True}, monkeypatch)
    with pytest.raises(UsageError, match="no role nvidia"):
        verified("--role", "nvidia")
    assert cluster.words == []


@pytest.mark.parametrize("roles", [[], ["fabric_network"], ["firewall"]])
def test_the_playbook_tests_the_paths_with_their_role(roles: list[str]) -> None:
    plays = yaml.safe_load((ROOT / "playbooks/verify.yml").read_text(encoding="utf-8"))
    (task,) = (one for one in plays[1]["tasks"] if one["name"] == "Verify the fabric")
    condition = next(one for one in task["when"] if "verify_roles" in one)
    templar = Templar(DataLoader(), variables={"verify_roles": roles} if roles else {})
    assert templar.evaluate_conditional(trust_as_template(condition)) == (roles != ["firewall"])


@pytest.mark.slow  # a run of Ansible, and all checks of three hosts, twice
def test_it_agrees_with_the_playbook(inventory: Path, tmp_path: Path) -> None:
    reports = tmp_path / "playbook.json", tmp_path / "command.json"
    words = ["-i", str(inventory), "-e", f"verify_report={reports[0]}"]
    playbook = run(program("ansible-playbook"), str(ROOT / "playbooks/verify.yml"), *words, cwd=tmp_path)
    assert reports[0].is_file(), playbook.stdout + playbook.stderr
    logins = len(words_of(tmp_path / "ssh"))
    fast = run(program("firstlight"), "verify", "-i", str(inventory), "-e", f"verify_report={reports[1]}", cwd=tmp_path)
    assert fast.returncode == 1, fast.stdout + fast.stderr
    # The kernel of this machine may write a line between the two.
    texts = (re.sub(r"in \d+ lines of the kernel", "in N lines", one.read_text(encoding="utf-8")) for one in reports)
    expected, found = map(json.loads, texts)
    assert found == expected
    assert {record["host"] for record in found} == {FIRST, SECOND, "spark-gamma", LAST}
    assert [record["id"] for record in found if record["host"] == LAST] == ["host.answer"]
    told = said(playbook.stdout)
    assert said(fast.stdout) == told
    assert told[FIRST]
    assert len(words_of(tmp_path / "ssh")) > logins


@pytest.mark.slow  # all checks of a host
def test_a_limit_and_json(inventory: Path, tmp_path: Path) -> None:
    done = run(program("firstlight"), "verify", "-i", str(inventory), "--limit", SECOND, "--json", cwd=tmp_path)
    records: list[dict[str, Any]] = json.loads(done.stdout)
    assert done.returncode == 1
    assert {record["host"] for record in records} == {SECOND}
    missed = run(program("firstlight"), "verify", "-i", str(inventory), "--limit", "cluster:!cluster", cwd=tmp_path)
    assert missed.returncode == 2
    assert "matches no host" in missed.stderr


@pytest.mark.slow  # a plan
def test_a_plan_that_is_refused_asks_nobody(inventory: Path, tmp_path: Path) -> None:
    words = ["-i", str(inventory), "-e", "firstlight_model=no-such-model"]
    done = run(program("firstlight"), "verify", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "no-such-model" in done.stderr
    assert not words_of(tmp_path / "ssh")
