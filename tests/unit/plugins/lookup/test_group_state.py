# SPDX-License-Identifier: Apache-2.0
"""How hosts stand together, from hostvars as playbooks and roles fill them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleLookupError
from ansible.plugins.loader import lookup_loader
from ansible_collections.firstlight.cluster.plugins.plugin_utils.group_state import SUBJECTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.scale.membership import evaluate

FILE = {"kind": "file", "key": "/etc/firstlight/supervisor.json"}
PLAN: dict[str, Any] = {
    "cluster": {"stack": "new", "head": "a"},
    "host": {"is_head": True},
    "roles": {"inference_server": {"inference_server_served_name": "new"}},
}


def state(subject: str, hostvars: dict[str, Any], answering: list[str] | None = None, **options: Any) -> dict[str, Any]:
    """All hosts are of the cluster and of the play; the first of them is its head, and asks."""
    names = list(hostvars)
    variables = {
        "hostvars": hostvars,
        "inventory_hostname": names[0],
        "groups": {"cluster": names, "head": names[:1]},
        "ansible_play_hosts_all": names,
        "ansible_play_hosts": names if answering is None else answering,
    }
    plugin = lookup_loader.get("firstlight.cluster.group_state")
    (found,) = plugin.run([subject], variables=variables, **options)
    return dict(found)


def test_a_host_that_stopped_answering_is_lost_once_the_group_is_drained() -> None:
    move = {"repin_decision": {"action": "move", "resumes": None}, "repin_prepared": True}
    found = state("repin", {"a": {**move, "repin_drained": True}, "b": move}, ["a"])
    assert "b" in found["failed"]
    assert found["put_back"] == ["a"]
    assert found["waits_for"] == ["b"]


def test_a_host_that_was_silent_from_the_start_is_lost_where_a_move_is_open() -> None:
    found = state("repin", {"a": {"repin_decision": {"action": "move", "resumes": "drained"}}, "b": {}}, ["a"])
    assert found["put_back"] == ["a"]
    assert found["waits_for"] == ["b"]


def test_a_host_is_decided_by_the_facts_that_are_kept_of_it() -> None:
    facts = {
        "__repin_read": {"journal": None},
        "__repin_compared": {"observation": {}},
        "firstlight_plan": PLAN,
        "firstlight_desired": {"container_runtime": {"packages": {"docker.io": "2"}}},
        "firstlight_pending": {},
        "repin_present_plan": {},
        "repin_present_desired": {"container_runtime": {"packages": {"docker.io": "1"}}},
    }
    found = state("repin_decision", {"a": facts, "b": {}}, max_reboots="4", serves="false")
    assert (found["action"], found["reasons"]) == ("done", ["already on new"])
    assert (found["to"]["packages"], found["from_packages"]) == ({"docker.io": "2"}, ["docker.io"])


@pytest.mark.parametrize("part", ["result", "back"])
def test_what_a_host_came_to_before_it_fell_silent_stays(part: str) -> None:
    move = {"repin_decision": {"action": "move", "resumes": None}, f"repin_{part}": {"outcome": "rolled-back"}}
    assert state("repin", {"a": move}, []) == state("repin", {"a": move}, ["a"])


def test_the_report_has_a_document_and_lines() -> None:
    before = {"cluster": {"stack": "old"}}
    host = {"repin_decision": {"action": "done"}, "firstlight_plan": PLAN, "repin_present_plan": before}
    found = state("repin_report", {"a": host})
    assert found["document"]["done"]
    assert found["lines"][0] == "Re-pin old -> new: done"


def test_facts_of_a_switch_are_found_by_their_names() -> None:
    plan = {"cluster": {"model": "new"}, "roles": {}}
    hostvars = {"a": {"switch_wanted_plan": plan, "switch_new": {"problem": "no answer"}, "other": 1}}
    found = state("switch", hostvars, named={"serving": {"max_model_len": 8192}})
    assert found["failed"] == {"a": "no answer"}
    assert found["lines"] == ["firstlight_model: new", "firstlight_serving.max_model_len: 8192"]
    assert "it no longer answers" in state("switch", hostvars, [])["failed"].values()


def test_members_are_told_what_other_hosts_mean_for_them() -> None:
    facts = {
        host: {"plan": {"cluster": {"profile": "vllm-ray"}, "roles": {}}, "pending": {"host_tuning": [FILE]}}
        for host in ("a", "b")
    }
    hostvars = {host: {f"firstlight_{name}": one for name, one in found.items()} for host, found in facts.items()}
    found = state("members", hostvars, newcomers=["b"], restart="yes")
    assert found == evaluate(facts, ["b"], restart=True)
    assert found["problems"]


@pytest.mark.parametrize("given", ["play", "host"])
def test_a_full_run_may_be_asked_for_by_the_play_or_by_the_host(given: str) -> None:
    plan = {"cluster": {"head": "a"}, "host": {}, "roles": {"host_tuning": {}}, "leaving": []}
    full = {"firstlight_full": "true"}
    facts = {"__compared": {"plan": plan, "observation": {}, "desired": {}}, **(full if given == "host" else {})}
    known = {"hostvars": {"a": facts}, "inventory_hostname": "a", **(full if given == "play" else {})}
    (found,) = lookup_loader.get("firstlight.cluster.group_state").run(["compared"], variables=known)
    assert "host_tuning" in found["firstlight_steps"]


def test_hosts_are_named_by_themselves_or_by_a_group() -> None:
    assert state("named", {"a": {}, "b": {}}, nodes="b") == {"hosts": ["b"], "problem": ""}
    assert "expected one host" in state("named", {"a": {}, "b": {}, "c": {}}, nodes=["b", "c"], single=True)["problem"]


def test_the_machine_that_replaces_another_is_told_by_its_serial() -> None:
    facts = {"__membership_machine": {"serial": "S9"}, "inventory_dir": "/mine"}
    found = state("replacement", {"c": facts})
    assert found["problem"] == ""
    assert found["message"].startswith("c is the machine S9; the inventory has no serial for it")
    place = {"firstlight_rack": {"serial": "S2"}}
    assert "expected S2" in state("replacement", {"c": {**facts, **place}})["problem"]
    silent = {"__membership_machine": {"unreachable": True, "msg": "timed out"}, "ansible_host": "192.0.2.3"}
    assert state("replacement", {"c": silent})["problem"].startswith("c (192.0.2.3) does not answer (timed out)")


@pytest.mark.parametrize("known", [True, False])
def test_a_host_that_goes_is_told_to_its_owner(known: bool) -> None:
    """Also where the inventory has no such host any more."""
    plans = {
        host: {"cluster": {"profile": "vllm-ray", "hosts": ["a", "c"]}, "host": {"name": host}} for host in ("a", "c")
    }
    rack = {"name": "r", "position": 4}
    hostvars: dict[str, Any] = {
        "a": {"__remove_present": {"plans": plans}, "__remove_rest": {"plans": {"a": plans["a"]}}}
    }
    if known:
        hostvars["c"] = {"firstlight_rack": rack, "__remove_seen": {"left": ["firstlight-ray.service runs"]}}
    found = state("removal", hostvars, node="c", serving={"pipeline_parallel": 3})
    assert found["problems"] == []
    assert bool(found["stops"]) is known
    assert found["lines"] == [
        "of rack r: absent: [4], in addition to those already absent" if known else "take c out of hosts.yml",
        "firstlight_serving.pipeline_parallel: 3",
    ]


def required(racks: dict[str, list[str]], answering: list[str], phase: str = "") -> dict[str, Any]:
    """What comes of it where a play is for the hosts a and b."""
    variables = {
        "groups": {"cluster": ["a", "b"], **racks},
        "ansible_play_hosts_all": ["a", "b"],
        "ansible_play_hosts": answering,
    }
    plugin = lookup_loader.get("firstlight.cluster.group_state")
    found: dict[str, Any] = plugin.run(["require_all_hosts"], variables=variables, phase=phase)[0]
    return found


SEVERAL = {"rack_a": ["a"], "rack_b": ["b"]}


def test_hosts_that_are_out_are_named_by_their_rack() -> None:
    found = required(SEVERAL, ["a"])
    assert found["missing"] == {"rack_b": ["b"]}
    assert found["message"].startswith("1 of 2 hosts is out (rack_b: b)")
    assert required(SEVERAL, ["a", "b"]) == {"missing": {}, "message": ""}


def test_in_several_racks_a_phase_begins_without_them() -> None:
    assert required(SEVERAL, ["a"], phase="Driver") == {"missing": {}, "message": ""}


@pytest.mark.parametrize(
    "racks",
    [{}, {"rack_a": ["a", "b"]}, {"rack_a": ["a", "b"], "rack_c": ["c"]}],
    ids=["none", "one", "one of another cluster"],
)
@pytest.mark.parametrize("phase", ["Driver", ""])
def test_in_one_cluster_no_phase_does(racks: dict[str, list[str]], phase: str) -> None:
    found = required(racks, ["a"], phase)
    assert found["missing"] == {"": ["b"]}
    assert found["message"].startswith("1 of 2 hosts is out (b), expected all of them")
    assert ("Driver was not started on the other 1." in found["message"]) == bool(phase)
    assert "--limit" not in found["message"]
    assert required(racks, ["a", "b"], phase) == {"missing": {}, "message": ""}


def test_what_faces_others_is_what_is_loaded() -> None:
    units = {"firstlight-endpoint.service": {"load": "loaded"}, "firstlight-firewall.service": {"load": "not-found"}}
    assert state("exposed", {"a": {"__teardown_seen": {"observation": {"units": units}}}}) == {"roles": ["endpoint"]}


def test_what_there_is_to_do_until_it_serves() -> None:
    hostvars = {
        "a": {"firstlight_plan": PLAN, "firstlight_pending": {}, "other": 1},
        "b": {"firstlight_pending": {"inference_server": [FILE]}},
    }
    assert state("serving", hostvars)["server"]
    hostvars["b"] = {}
    assert not state("serving", hostvars)["any"]
    assert state("serving", hostvars, full="true")["any"]


def test_what_the_head_serves_now_is_held_against_its_plan() -> None:
    seen = {"config": {"groups": {"server": {"model": "old"}}}}
    roles = {"inference_server": {**PLAN["roles"]["inference_server"], "inference_server_profile": "sglang"}}
    found = state("serving", {"a": {"firstlight_plan": {**PLAN, "roles": roles}, "serving_seen": {"serving": seen}}})
    assert found["other_model"] == "old"
    assert "the model changes from old to new" in found["rebuild"][0]
    nothing = state("serving", {"a": {"firstlight_plan": PLAN, "serving_seen": {"skipped": True}}, "b": {}})
    assert (nothing["other_model"], nothing["rebuild"]) == ("", [])


def test_hosts_that_were_not_asked_are_in_it() -> None:
    hostvars = {"a": {"status_answer": {"unreachable": True, "msg": "ssh: no route"}}, "b": {}}
    document = state("status", hostvars, targets={})
    assert [node["problems"] for node in document["nodes"]] == [["unreachable: no route"], ["it was not queried"]]
    assert document["lines"][0].startswith("unknown")
    assert document["at"].endswith("Z")
    assert list(state("logs", {"a": {"logs_answer": {"entries": [], "cursor": "x"}}})["cursors"]) == ["a"]


@pytest.mark.parametrize(("address", "fetches"), [("192.0.2.1", []), ("", ["b"])])
def test_a_host_without_the_model_takes_it_from_the_head_where_there_is_a_fabric(
    address: str, fetches: list[str]
) -> None:
    roles = {"model_weights": {"model_weights_share_address": address}}
    plan = {"cluster": {"head": "a"}, "roles": roles}
    hostvars = {
        "a": {"firstlight_plan": plan, "firstlight_pending": {"model_weights": []}},
        "b": {"firstlight_plan": plan, "firstlight_pending": {"model_weights": [FILE]}},
    }
    found = state("weights", hostvars)
    assert (found["fetches"], found["receives"]) == (fetches, [] if fetches else ["b"])
    assert "a" in state("weights", hostvars, full=True)["fetches"]


def test_what_the_gpus_of_all_hosts_take_is_evaluated_together() -> None:
    hardware = {"gpus": 1, "power_limit_w": None, "host_power_w": {"sustained": None, "transient": 240}}
    accepted = {"gpu_verify_accepted": {"hardware": hardware, "measured": {}, "checks": []}}
    hostvars: dict[str, Any] = {"s0": accepted, "s1": accepted, "s2": {}}
    evaluated = state("gpus", hostvars, power={"rack_w": 400})
    assert evaluated["wrong"][0].startswith("s0: burn_in.rack_power fails: 2 hosts may take 480 W")
    allowed = state("gpus", hostvars, power={"rack_w": 400}, accept=["burn_in.rack_power"])
    assert allowed["wrong"] == []
    assert allowed["records"]["s0"][0]["verdict"] == "not_applicable"
    assert state("gpus", hostvars) == {"records": {"s0": [], "s1": []}, "wrong": []}


def test_a_host_that_took_no_part_in_the_connectivity_test() -> None:
    part = {"ports": [], "peers": [], "result": {"msg": "Failed to connect\nto the host"}}
    found = state("fabric", {"a": {"__fabric_network_part": part}}, members=["a", "b"])
    assert not found["passed"]
    assert found["diagnoses"][0].startswith("a did not take part (Failed to connect to the host)")
    assert found["records"]["a"][0]["verdict"] == "could_not_check"


@pytest.mark.parametrize(
    ("subject", "facts"),
    [
        ("gpus", {"gpu_verify_accepted": {"measured": {"gpus": ["x"]}}}),
        ("fabric", {"__fabric_network_part": {"result": {"report": {"paths": [{}]}}}}),
        ("fabric", {}),
    ],
)
def test_results_of_another_shape_are_refused(subject: str, facts: dict[str, Any]) -> None:
    with pytest.raises(AnsibleLookupError, match=f"group_state cannot describe {subject}"):
        state(subject, {"a": facts}, power={"rack_w": 1}, members=["a"])


def test_another_subject_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(AnsibleLookupError, match=f"does not know 'x', expected one of {', '.join(SUBJECTS)}"):
        state("x", {"a": {}})
