# SPDX-License-Identifier: Apache-2.0
"""`firstlight up` looks first; whatever a look cannot settle is ansible-playbook in fewer words."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import make_record
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.reading import Source

from firstlight import looking, playbooks
from firstlight.cli import main
from firstlight.commands import up
from firstlight.errors import DONE, FAILED, REFUSED
from firstlight.playbooks import PLAYBOOKS
from firstlight.verifying import Verified

ROOT = Path(__file__).resolve().parents[3]
INVENTORY = str(ROOT / "inventory" / "spark4")


def recorded(monkeypatch: pytest.MonkeyPatch, module: ModuleType, status: int) -> list[list[str]]:
    """What ansible-playbook would be called with."""
    ran: list[list[str]] = []

    def run_playbook(words: list[str]) -> int:
        ran.append(words)
        return status

    monkeypatch.setattr(module, "run_playbook", run_playbook)
    return ran


def test_the_playbook_gets_what_the_command_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = recorded(monkeypatch, playbooks, DONE)
    monkeypatch.setattr(up, "is_right", lambda _: pytest.fail("options of Ansible's leave nothing to look at"))
    words = ["-l", "spark-beta", "-C", "-D", "-e", "x=1", "--tags", "fabric", "--vault-password-file", "v", "-vv"]
    assert main(["up", "-i", INVENTORY, *words]) == DONE
    assert main(["up", "-i", INVENTORY, "-e", "x=1"]) == DONE
    path = str(PLAYBOOKS / "site.yml")
    assert Path(path).is_file()
    assert ran == [
        [path, "-i", INVENTORY, "--limit", "spark-beta", "-e", "x=1", "--vault-password-file", "v"]
        + ["--tags=fabric", "--check", "--diff", "-vv"],
        [path, "-i", INVENTORY, "-e", "x=1"],
    ]


@pytest.mark.parametrize(("right", "times"), [(True, 0), (False, 1)])
def test_a_cluster_that_is_right_needs_no_playbook(right: bool, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = recorded(monkeypatch, playbooks, DONE)
    monkeypatch.setattr(up, "is_right", lambda _: right)
    assert main(["up", "-i", INVENTORY]) == DONE
    assert ran == [[str(PLAYBOOKS / "site.yml"), "-i", INVENTORY]] * times


RIGHT = make_record("sysctl.vm.swappiness", "head0", "1", "1", "pass")
WRONG = make_record("sysctl.vm.swappiness", "head0", "1", "60", "fail", "run site.yml")
SERVER = {
    "inference_server_profile": next(iter(PROFILES)),
    "inference_server_port": 290,
    "inference_server_listen": "127.0.0.1",
    "inference_server_served_name": "tiny",
    "inference_server_tensor_parallel": 4,
    "inference_server_replicas": 1,
}
PLAN: dict[str, Any] = {
    "host": {"name": "head0", "fabric": []},
    "cluster": {"head": "head0"},
    "roles": {"endpoint": None, "gpu_verify": {"gpu_verify_burn_in": False}, "inference_server": SERVER},
    "desired": {},
}


@dataclass
class Looked:
    """What a look at one host found, and what its server answered."""

    records: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {"head0": [RIGHT]})
    reply: dict[str, Any] = field(default_factory=lambda: {"answer": {"reply": "Hello."}})


def look(
    monkeypatch: pytest.MonkeyPatch, looked: Looked, plan: Mapping[str, Any] = PLAN, **variables: str
) -> list[str]:
    """Why site.yml would run."""
    source = Source("head0", ["head"], variables, variables.__getitem__)
    verified = Verified({"head0": {"observation": {}}}, looked.records)
    monkeypatch.setattr(looking, "verify", lambda *_, **__: verified)
    monkeypatch.setattr(looking, "complete", lambda *_: looked.reply)
    connection = SimpleNamespace(host="head0")
    cluster = looking.Cluster(cast("Any", SimpleNamespace(hosts={"head0": plan})), [source], [cast("Any", connection)])
    return looking.reasons_to_run(cluster)


def test_right_and_answering_is_said_in_full(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert look(monkeypatch, Looked()) == []
    told = capsys.readouterr().out
    assert "1 of 1, 1 checks passed" in told
    assert 'tiny answered "Hello."' in told
    assert "site.yml was not run" in told


def test_what_differs_or_does_not_answer_is_left_to_the_playbook(monkeypatch: pytest.MonkeyPatch) -> None:
    (wrong,) = look(monkeypatch, Looked(records={"head0": [WRONG]}))
    assert wrong.startswith("head0 differs from its plan: sysctl.vm.swappiness")
    assert look(monkeypatch, Looked(reply={"problem": "nobody listens"})) == ["nobody listens"]


@pytest.mark.parametrize(
    ("roles", "variables", "told"),
    [
        ({"endpoint": {}}, {}, "endpoint"),
        ({"gpu_verify": {"gpu_verify_burn_in": True}}, {}, "accepted"),
        ({"inference_server": {**SERVER, "inference_server_restart": True}}, {}, "inference_server_restart"),
        ({"inference_server": None}, {}, "nothing is served"),
        ({}, {"firstlight_full": "true"}, "firstlight_full"),
        ({}, {"inference_server_api_key": "s3cret"}, "inference_server_api_key is set"),
    ],
)
def test_what_no_look_can_tell_is_left_to_the_playbook(
    roles: dict[str, Any], variables: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (reason,) = look(monkeypatch, Looked(), {**PLAN, "roles": {**PLAN["roles"], **roles}}, **variables)
    assert told in reason
    assert "s3cret" not in reason


def test_a_re_pin_goes_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = recorded(monkeypatch, playbooks, FAILED)
    assert main(["repin", "--stack", "next", "-i", INVENTORY, "-e", "x=1"]) == FAILED
    assert ran == [[str(PLAYBOOKS / "repin.yml"), "-i", INVENTORY, "-e", "x=1", "-e", '{"stack": "next"}']]


def test_an_inventory_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "-i", "/nowhere"]) == REFUSED
    assert "the inventory /nowhere does not exist" in capsys.readouterr().err


@pytest.mark.slow  # a run of Ansible each
@pytest.mark.parametrize(("command", "status"), [("up", 1), ("verify", 2)])
def test_it_runs_outside_a_checkout_and_a_failure_of_ansible_is_1(command: str, status: int, tmp_path: Path) -> None:
    """The hosts are nowhere and the plan has no model, which Ansible exits 2 or 4 for."""
    hosts = {"cluster": {"children": {"head": {"hosts": {"gone": {"ansible_host": "127.0.0.1", "ansible_port": 1}}}}}}
    (tmp_path / "hosts.yml").write_text(json.dumps(hosts), encoding="utf-8")
    program = str(Path(sys.executable).with_name("firstlight"))
    done = subprocess.run(
        [program, command, "-i", "hosts.yml"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "firstlight_model" in done.stdout + done.stderr
