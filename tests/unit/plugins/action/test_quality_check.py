# SPDX-License-Identifier: Apache-2.0
"""The controller's part of a comparison of answers: what is asked, kept, and told."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.action.quality_check import ActionModule, QualityError
from ansible_collections.firstlight.cluster.plugins.modules.quality_check import ARGUMENTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.quality import assessment

from tests.unit.plugins.action.test_benchmark import CLUSTER, SERVER
from tests.unit.plugins.plugin_utils.test_catalog_prompts import OWN

PROMPTS = [{"id": f"p{number}", "prompt": f"{number}?", "max_tokens": 8} for number in range(4)]
TEXTS = ["one two three", "four five", "six", "seven eight"]
DAMAGED = ["zzz", "four", "y", "x x"]


class Action(ActionModule):
    """The action without Ansible around it; the server is played."""

    def __init__(self, *texts: list[str], problem: str = "") -> None:
        self._task = SimpleNamespace(check_mode=False)  # type: ignore[assignment]
        self.texts, self.problem = texts or (TEXTS,), problem
        self.asked: list[dict[str, Any]] = []

    def _execute_module(self, *_: Any, module_args: Any = None, **given: Any) -> dict[str, Any]:
        assert "module_name" not in given, "the module of its own name"
        self.asked.append(module_args)
        told = [self.texts[min(number, len(self.texts) - 1)] for number in range(module_args["times"])]
        answers = [
            [
                {"id": one["id"], "text": text, "token_ids": None, "finish_reason": "stop"}
                for one, text in zip(module_args["prompts"], texts, strict=True)
            ]
            for texts in told
        ]
        return {"answers": answers, "left_out": {}, "problem": self.problem, "kind": "", "driver": "580.173.02"}

    def check(self, variables: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        defaults = {name: field.get("default") for name, field in ARGUMENTS.items()}
        return self._check({**defaults, **arguments}, variables)


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(assessment, "_scores", dict)  # slow to import
    (tmp_path / "quality.yml").write_text(yaml.safe_dump({**OWN, "prompts": PROMPTS}))
    weights = {"model_weights_revision": "aaaa"}
    roles = {"inference_server": SERVER, "model_weights": weights, "nvidia_driver": None}
    launched = [{"name": "server", "engine_argv": ["vllm", "serve", "/models/tiny"]}]
    plan = {"cluster": CLUSTER, "roles": roles, "host": {"launch": launched}, "desired": {}}
    own = {"firstlight_plan": plan, "firstlight_catalog": [str(tmp_path)]}
    sources = [str(tmp_path / "mine/hosts.yml")]
    hostvars = {name: dict(own) for name in CLUSTER["hosts"]}
    return {"inventory_hostname": "a", "ansible_inventory_sources": sources, "hostvars": hostvars}


def place(tmp_path: Path) -> Path:
    return tmp_path / "state/firstlight/mine/quality"


def test_accepted_answers_are_compared_with(variables: dict[str, Any], tmp_path: Path) -> None:
    accepted = Action().check(variables, accept=True)
    assert accepted["assessment"]["status"] == "same"
    (reference,) = place(tmp_path).glob("references/*.json")
    assert reference.name == "tiny@aaaa.json"
    assert reference.stat().st_mode & 0o077 == 0
    kept = json.loads(reference.read_text())
    assert len(kept["answers"]) == len(kept["repeat"]) == 4
    assert kept["configuration"]["driver"] == "580.173.02"
    same = Action().check(variables, document=str(tmp_path / "assessment.json"))
    assert (same["assessment"]["status"], same["problem"]) == ("same", "")
    assert json.loads((tmp_path / "assessment.json").read_text()) == same["assessment"]
    worse = Action(DAMAGED).check(variables, answers_document=str(tmp_path / "answers.json"))
    assert worse["assessment"]["status"] == "worse"
    assert "p0: 'one two three' became 'zzz'" in worse["problem"]
    assert json.loads((tmp_path / "answers.json").read_text())["answers"][0]["text"] == "zzz"
    assert len([*place(tmp_path).glob("*.json")]) == 3, "an assessment for each time"
    again = Action(DAMAGED).check(variables, accept=True)
    assert (again["assessment"]["status"], again["problem"]) == ("same", "")
    assert any("accepted before: worse" in line for line in again["lines"])


def test_a_file_of_answers_takes_the_place_of_accepted_ones(variables: dict[str, Any], tmp_path: Path) -> None:
    before = Action().check(variables, baseline=True)
    assert not (place(tmp_path) / "references").exists()
    assert [*place(tmp_path).glob("*.json")] == [], "what was only asked is no assessment"
    assert Action(DAMAGED).check(variables, reference=before["answers"])["assessment"]["status"] == "worse"
    with pytest.raises(QualityError, match="has no answers"):
        Action().check(variables, reference="/not/there.json")


@pytest.mark.parametrize(
    ("settings", "accepted", "asked"),
    [
        (None, False, False),
        (None, True, True),
        ({"gate": True}, False, True),
        ({"gate": False}, True, False),
    ],
)
def test_a_change_waits_for_answers_only_where_that_is_wanted(
    variables: dict[str, Any], settings: Any, accepted: bool, asked: bool
) -> None:
    if accepted:
        Action().check(variables, accept=True)
    variables["hostvars"]["a"]["firstlight_quality"] = settings
    action = Action()
    found = action.check(variables, gate=True)
    assert (found["asked"], bool(action.asked), found["problem"]) == (asked, asked, "")


def test_limits_of_the_inventory_hold(variables: dict[str, Any]) -> None:
    Action().check(variables, accept=True)
    variables["hostvars"]["a"]["firstlight_quality"] = {"limits": dict.fromkeys(OWN["limits"]["engine"], 1.0)}
    assert Action(DAMAGED).check(variables)["assessment"]["status"] == "within_limits"


def test_a_server_that_does_not_answer_is_a_problem(variables: dict[str, Any], tmp_path: Path) -> None:
    found = Action(problem="p1: timeout: no answer within 120 s").check(variables, accept=True)
    assert found["assessment"]["status"] == "could_not_ask"
    assert "p1: timeout" in found["problem"]
    assert not (place(tmp_path) / "references").exists()


def test_nothing_to_compare_with_is_no_problem(variables: dict[str, Any]) -> None:
    found = Action().check(variables)
    assert (found["assessment"]["status"], found["problem"]) == ("no_reference", "")


def test_check_mode_asks_nothing(variables: dict[str, Any], tmp_path: Path) -> None:
    action = Action()
    action._task.check_mode = True
    assert action.check(variables, accept=True)["lines"] == ["4 prompts would be asked twice"]
    assert action.asked == []
    assert not (tmp_path / "state").exists()


def test_a_plan_without_a_server_is_nothing_to_gate(variables: dict[str, Any]) -> None:
    for host in variables["hostvars"].values():
        host["firstlight_plan"] = {**host["firstlight_plan"], "roles": {"inference_server": None}}
    assert Action().check(variables, gate=True)["asked"] is False
    with pytest.raises(QualityError, match="no server"):
        Action().check(variables)


@pytest.mark.hostile
def test_a_reference_that_is_none_is_one_message(variables: dict[str, Any], tmp_path: Path) -> None:
    Action().check(variables, accept=True)
    (reference,) = place(tmp_path).glob("references/*.json")
    document = json.loads(reference.read_text())
    reference.write_text(json.dumps({**document, "answers": [{"id": "p0"}, {}]}))
    with pytest.raises(QualityError, match="accept new ones"):
        Action().check(variables)
