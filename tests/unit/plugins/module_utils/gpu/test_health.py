# SPDX-License-Identifier: Apache-2.0
"""The GPUs as a state: which checks count, which do not, and how they are said."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.check import make_check
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import (
    evaluated_checks,
    expected_by,
    host_checks,
    is_coming,
    not_right,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import check_vocabulary
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import lines, records, verdict_line
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state

from tests.unit.ideal import ideal

HARDWARE = {"gpus": 8, "gpu_name": "NVIDIA H100 80GB HBM3", "pair": "NV18", "links_per_gpu": 18, "nvswitch": True}
VARIABLES: dict[str, Any] = {
    "gpu_verify_hardware": {**HARDWARE, "source": "a paper", "description": "eight"},
    "gpu_verify_profile": "h100-sxm-8",
    "gpu_verify_driver": "590.48.01",
    "gpu_verify_accept": ["kernel.xid"],
}
DESIRED = desired_state("gpu_verify", VARIABLES)
WANT = DESIRED["gpu_health"]

COUNT = make_check("gpu.count", "pass", 8, 8)
LINKS = make_check("nvlink.links", "fail", "18 links", "GPU 3: 17 of 18", "reseat it", command="nvidia-smi -r")
TOPO = make_check("topo.pairs", "could_not_check", "NV18", '"GPU0"', "capture it again")
MIG = make_check("gpu.mig", "not_applicable", "off", "has none")
XID = make_check("kernel.xid", "fail", "none", "79 on GPU 1", "replace it")


def seen(*checks: dict[str, Any]) -> dict[str, Any]:
    return {"gpu_health": {"checks": list(checks), "topology": None, "serving": False}}


def test_a_profile_becomes_a_state_without_what_is_for_readers() -> None:
    assert WANT == {
        "profile": "h100-sxm-8",
        "hardware": HARDWARE,
        "driver": "590.48.01",
        "accept": ["kernel.xid"],
    }
    assert desired_state("gpu_verify", {**VARIABLES, "gpu_verify_driver": ""})["gpu_health"]["driver"] is None
    assert expected_by(WANT).pairs == ("NV18",)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"gpu_verify_hardware": {}}, "no gpus and no gpu_name, expected an entry of catalog/hardware"),
        ({"gpu_verify_hardware": {"gpus": 8}}, "the hardware has no gpu_name"),
        ({"gpu_verify_accept": "kernel.xid"}, "expected a list of check ids"),
        ({"gpu_verify_accept": [""]}, "expected a list of check ids"),
        ({"gpu_verify_accept": [1]}, "expected a list of check ids"),
    ],
)
def test_what_is_no_profile_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        desired_state("gpu_verify", {**VARIABLES, **changed})


def test_a_misspelt_field_of_the_state_is_refused() -> None:
    with pytest.raises(ValueError, match="gpu_health has unknown fields acept; known fields are accept, driver"):
        check_vocabulary({"gpu_health": {**WANT, "acept": []}})


def test_gpus_that_are_right_make_no_difference() -> None:
    assert differences(DESIRED, ideal(DESIRED)) == []
    assert differences(DESIRED, seen(COUNT, MIG)) == []


def test_each_check_that_is_not_right_is_one_difference() -> None:
    found = differences(DESIRED, seen(COUNT, LINKS, TOPO, MIG))
    assert [(one["kind"], one["key"]) for one in found] == [("gpu_check", "nvlink.links"), ("gpu_check", "topo.pairs")]
    assert explain(found) == [
        "nvlink.links fails: GPU 3: 17 of 18, expected 18 links; reseat it (`nvidia-smi -r`)",
        'topo.pairs could not be checked: "GPU0", expected NV18; capture it again',
    ]


def test_what_the_operator_accepts_is_shown_and_does_not_count() -> None:
    assert differences(DESIRED, seen(COUNT, XID)) == []
    (record,) = (one for one in records("h", {"gpu_verify": DESIRED}, seen(COUNT, XID)) if one["id"] == "kernel.xid")
    assert record["verdict"] == "not_applicable"
    assert record["observed"] == "accepted by gpu_verify_accept: 79 on GPU 1"


@pytest.mark.parametrize(
    ("observed", "why"),
    [
        (None, "it was not checked"),
        ({"checks": []}, "no tool reported any GPU"),
        ({"checks": [TOPO]}, "no tool reported any GPU"),
        ({"checks": [MIG]}, "no tool reported any GPU"),
        ({"checks": [], "error": "no answer within 32 s"}, "no answer within 32 s"),
    ],
)
def test_gpus_of_which_nothing_is_known_are_not_right(observed: Any, why: str) -> None:
    last = not_right(WANT, observed)[-1]
    assert (last["id"], last["verdict"], last["observed"]) == ("gpu.answer", "could_not_check", why)


def test_nothing_wanted_is_nothing_evaluated() -> None:
    assert evaluated_checks({}, None) == []
    assert differences({}, {}) == []


def test_records_have_every_check_with_remedy_and_command() -> None:
    found = records("node", {"gpu_verify": DESIRED}, seen(COUNT, LINKS, TOPO, MIG))
    assert {one["id"]: one["verdict"] for one in found} == {
        "gpu.count": "pass",
        "nvlink.links": "fail",
        "topo.pairs": "could_not_check",
        "gpu.mig": "not_applicable",
    }
    assert [one["command"] for one in found] == [None, "nvidia-smi -r", None, None]
    assert {one["host"] for one in found} == {"node"}
    assert lines(found) == [
        "FAIL     nvlink.links: GPU 3: 17 of 18, expected 18 links",
        "         do   reseat it: `nvidia-smi -r`",
        'NO CHECK topo.pairs: "GPU0", expected NV18',
        "         do   capture it again",
        "1 of 3 checks passed",
    ]
    assert verdict_line("node", found).endswith("Reseat it: `nvidia-smi -r`; Capture it again.")


def test_one_name_of_two_roles_is_one_record_and_what_is_wrong_decides() -> None:
    flavour = make_check("driver.flavour", "fail", "open", "proprietary", "install the open one")
    driver = {"driver": {"package": "nvidia-open", "version": "1", "flavour": "open"}}
    observed = {**ideal(driver), **seen(COUNT, flavour)}
    found = [one for one in records("h", {"a": driver, "b": DESIRED}, observed) if one["id"] == "driver.flavour"]
    assert [one["verdict"] for one in found] == ["fail"]


def test_a_command_that_did_not_answer_fails_the_answer_whatever_others_say() -> None:
    answers = make_check("gpu.answer", "pass", "an answer", "an answer")
    found = host_checks([answers, COUNT], ["nvidia-smi -L: nvidia-smi gave no answer within 30 s"])
    assert {one["id"]: one["verdict"] for one in found} == {"gpu.answer": "fail", "gpu.count": "pass"}


def test_processes_are_not_evaluated_where_the_cluster_serves() -> None:
    busy = make_check("gpu.processes", "fail", "none", "python3", "end it", command="kill 1")
    assert host_checks([busy])[0]["verdict"] == "fail"
    (found,) = host_checks([busy], serving=True)
    assert (found["verdict"], found["remedy"], found["command"]) == ("not_applicable", "", None)


def test_a_fabric_that_is_coming_up_is_waited_for_and_nothing_else() -> None:
    assert is_coming(["fabric_manager.state", "nvlink.links"])
    assert not is_coming(["fabric_manager.state", "gpu.count"])
    assert not is_coming([])
