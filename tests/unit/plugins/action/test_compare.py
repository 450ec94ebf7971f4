# SPDX-License-Identifier: Apache-2.0
"""A host is observed and compared: what only an observation knows is in its plan and its states, and is pending."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.action.compare import ActionModule
from ansible_collections.firstlight.cluster.plugins.plugin_utils.group_state import SUBJECTS, Run
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state, observation_request

from tests.unit.ansible_runs import ROOT, run_playbook
from tests.unit.ideal import ideal

VERSION = "580.126.09-0ubuntu0.24.04.2"
VARIABLES: dict[str, Any] = {
    "nvidia_driver_policy": "verify-and-hold",
    "nvidia_driver_packages": {"nvidia-driver-580-server": VERSION, "nvidia-dkms-580-server": VERSION},
    "nvidia_driver_fabric_manager": {"nvidia-fabricmanager-580": "580.126.09-0ubuntu0.24.04.1"},
    "nvidia_driver_version": "",
    "nvidia_driver_branch": "",
    "nvidia_driver_flavour": "",
    "nvidia_driver_source": {},
    "nvidia_driver_headers": True,
    "nvidia_driver_mig_ok": False,
}
TUNING = {"sysctl": {"vm.swappiness": "1"}}
PLAN: dict[str, Any] = {
    "cluster": {"head": "a"},
    "host": {"name": "a"},
    "roles": {"nvidia_driver": VARIABLES, "cuda_toolkit": None, "host_tuning": {}},
    "desired": {
        "nvidia_driver": desired_state("nvidia_driver", VARIABLES),
        "cuda_toolkit": {},
        "host_tuning": TUNING,
    },
    "observe": {"nvidia_driver": {}, "host_tuning": TUNING},
}


def seen(nvswitches: int, related: dict[str, bool] | None = None) -> dict[str, Any]:
    """What a host shows on which a plain host's state holds, and nothing else."""
    found = ideal(PLAN["desired"]["nvidia_driver"])
    asked = observation_request("nvidia_driver", VARIABLES, desired_state("nvidia_driver", VARIABLES))
    for kind, absent in (("packages", None), ("holds", False)):
        found[kind] = dict.fromkeys(asked[kind], absent) | found[kind]
    found["units"]["nvidia-fabricmanager.service"] = {"load": "not-found", "enabled": False, "active": False, "sub": ""}
    found["driver"] |= {"nvswitches": nvswitches, "kernel": "6.8", "related": sorted(related or {})}
    found["holds"] |= related or {}
    return found


class Action(ActionModule):
    """The action without Ansible around it; the host is played."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.asked: dict[str, Any] = {}
        self.arguments: dict[str, Any] = {}

    def _execute_module(self, *_: Any, module_args: Any = None, **given: Any) -> dict[str, Any]:
        assert given["module_name"] == "firstlight.cluster.observe"
        self.asked = module_args["desired"]
        return {"changed": False, "invocation": {"module_args": module_args}, **self.answer}

    def validate_argument_spec(self, *_: Any, **__: Any) -> Any:
        return None, self.arguments

    def compare(self, plan: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        self.arguments = {"plan": plan, "roles": [], "strict": True, **arguments}
        return self.run(None, {"inventory_hostname": "a"})


@pytest.fixture(autouse=True)
def no_ansible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ActionBase, "run", lambda *_: {})


def compared(observation: dict[str, Any], plan: dict[str, Any] = PLAN, **arguments: Any) -> dict[str, Any]:
    return Action({"observation": observation}).compare(plan, **arguments)


def pending(observation: dict[str, Any], head: dict[str, Any] | None = None) -> set[tuple[str, str]]:
    own = {"__compared": compared(observation)}
    run = Run({"a": own, "b": head or {}}, "a", {}, ["a"], ["a"])
    facts = SUBJECTS["compared"](run, {"register": "__compared"})
    assert facts["firstlight_observation"] == observation
    assert facts["nvidia_driver_packages"] == VARIABLES["nvidia_driver_packages"]
    return {(one["kind"], one["key"]) for one in facts["firstlight_pending"]["nvidia_driver"]}


def test_a_missing_fabric_manager_is_pending_where_there_is_an_nvswitch() -> None:
    assert pending(seen(0)) == set()
    assert {
        ("package", "nvidia-fabricmanager-580"),
        ("hold", "nvidia-fabricmanager-580"),
        ("unit", "nvidia-fabricmanager.service"),
    } <= pending(seen(4))


def test_what_else_there_is_of_the_release_is_held() -> None:
    assert ("hold", "nvidia-utils-580-server") in pending(seen(0, {"nvidia-utils-580-server": False}))
    assert ("hold", "nvidia-utils-580-server") not in pending(seen(0, {"nvidia-utils-580-server": True}))


def test_other_roles_and_a_host_that_could_not_be_read_stay_as_planned() -> None:
    assert compared(seen(4))["desired"]["host_tuning"] == TUNING
    assert compared(seen(4))["desired"]["cuda_toolkit"] == {}
    assert compared({"errors": {"driver": "no answer within 30 s"}})["desired"] == PLAN["desired"]


def test_what_must_equal_the_heads_is_compared_with_it() -> None:
    """A run that is limited to other hosts knows nothing of the head: it is not the same, and is not a crash."""
    same = {"files": {"/etc/token": {"mode": "0600", "same_as": "b"}}}
    plan = {**PLAN, "cluster": {"head": "b"}, "desired": {"ray_cluster": same}}
    have = {"files": {"/etc/token": {"exists": True, "sha256": "1", "mode": "0600"}}}
    own = {"__compared": compared(have, plan)}
    for head, right in (({}, False), ({"__compared": {"observation": have}}, True)):
        run = Run({"a": own, "b": head}, "a", {}, ["a"], ["a"])
        found = SUBJECTS["compared"](run, {"register": "__compared"})["firstlight_pending"]["ray_cluster"]
        assert (found == []) is right


def test_a_rail_without_a_port_refuses_the_host_unless_it_is_only_looked_at() -> None:
    rails = [{"address": "192.0.2.1/24", "mtu": 9000}]
    plan = {**PLAN, "host": {"name": "a", "fabric": rails}}
    found = compared({"errors": {"fabric": "no answer"}}, plan)
    assert found["failed"]
    assert found["msg"].startswith("Nothing was changed on a. a: rail 192.0.2.0/24 has no port")
    found = compared({"errors": {"fabric": "no answer"}}, plan, strict=False)
    assert "failed" not in found
    assert found["plan"]["errors"]


def test_notes_are_said_once() -> None:
    observation = {"fabric": {"ib0": {"link_layer": "InfiniBand", "rdma_device": "mlx5_0"}}}
    assert compared(observation)["msg"] == compared(observation)["plan"]["notes"] != []
    assert "msg" not in compared(observation, strict=False)
    assert "msg" not in compared({})


def test_only_the_roles_that_are_named_are_looked_at() -> None:
    action = Action({"observation": {}})
    found = action.compare(PLAN, roles=["host_tuning"])
    assert action.asked == found["desired"] == {"host_tuning": TUNING}
    assert "invocation" not in found


def test_a_host_that_cannot_be_observed_fails_as_observe_does() -> None:
    assert Action({"failed": True, "msg": "no"}).compare(PLAN) == {"changed": False, "failed": True, "msg": "no"}


def test_states_alone_are_compared_without_a_plan_around_them() -> None:
    states = {"drift": TUNING}
    assert compared({}, {"observe": states, "desired": states})["desired"] == states


def test_anything_else_is_refused_in_words() -> None:
    found = compared({}, {**PLAN, "roles": {}})
    assert found["failed"]
    assert "compare cannot resolve this plan" in found["msg"]
    assert "observation" not in found, "a host whose plan makes no sense is not one on which nothing differs"


@pytest.mark.slow  # a run of Ansible
def test_a_host_is_compared_by_the_tasks_of_the_playbooks(tmp_path: Path) -> None:
    states = {"host_tuning": {"files": {str(tmp_path / "absent"): {"content": "x"}}}}
    roles = {"host_tuning": {"host_tuning_swappiness": 7}, "firewall": None}
    plan = {
        "cluster": {"head": "node"},
        "host": {"name": "node", "fabric": []},
        "roles": roles,
        "desired": states,
        "observe": states,
    }
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "firstlight_plan": plan}
    told = "{{ host_tuning_swappiness }} {{ firstlight_pending.host_tuning | map(attribute='kind') | join }}"
    tasks = [
        {"ansible.builtin.import_tasks": f"{ROOT}/playbooks/tasks/compare.yml"},
        {"ansible.builtin.debug": {"msg": f"told {told} {{{{ firstlight_plan.errors }}}}"}},
    ]
    play = tmp_path / "play.yml"
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "vars": variables, "tasks": tasks}]))
    run = run_playbook("-i", "node,", str(play))
    assert run.returncode == 0, run.stdout + run.stderr
    assert "told 7 file []" in run.stdout
