# SPDX-License-Identifier: Apache-2.0
"""What a re-pin does with a host, from what was read of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.evaluate import (
    Decision,
    Terms,
    batches,
    decide,
    unhealthy,
)

WELL: dict[str, Any] = {
    "driver": {"installed": "580.1", "loaded": "580.1", "library": "580.1", "error": None, "nvswitches": 0},
    "gpus": {"count": 4},
    "units": {},
    "errors": {},
}
READ: dict[str, Any] = {"journal": None, "dpkg_broken": [], "reboots": []}
PENDING = {"nvidia_driver": [{"kind": "package", "key": "nvidia-utils-580", "observed": "1", "expected": "2"}]}


def journal(*states: str, stack: str = "new", previous: str = "old") -> dict[str, Any]:
    return {"stack": stack, "previous_stack": previous, "entries": [{"state": state} for state in states]}


def decided(reading: dict[str, Any] | None = None, **changed: Any) -> Decision:
    arguments = {"observation": WELL, "pending": PENDING, "expected_gpus": 4, **changed}
    observation, pending = arguments.pop("observation"), arguments.pop("pending")
    return decide("new", observation, {**READ, **(reading or {})}, pending, Terms(**arguments))


def test_a_host_that_is_well_and_differs_is_moved() -> None:
    assert decided().action == "move"


def test_a_host_that_does_not_differ_has_nothing_to_do() -> None:
    assert decided(pending={"nvidia_driver": []}).action == "done"


UNIT = {"kind": "unit", "key": "firstlight-ray.service", "observed": {"active": False}, "expected": {"active": True}}
FILE = {"kind": "file", "key": "/etc/systemd/system/firstlight-ray.service", "observed": "a", "expected": "b"}


@pytest.mark.parametrize(
    ("pending", "serves", "action"),
    [
        ({"host_tuning": [FILE], "ray_cluster": [UNIT]}, True, "done"),
        ({"ray_cluster": [UNIT, FILE]}, True, "move"),
        ({"ray_cluster": [UNIT, FILE]}, False, "done"),
        ({"container_runtime": [UNIT]}, False, "move"),
    ],
)
def test_a_host_is_moved_for_what_the_stack_changes_and_nothing_else(pending: Any, serves: bool, action: str) -> None:
    assert decided(pending=pending, serves=serves).action == action


@pytest.mark.parametrize(
    "state", ["planned", "drained", "staged", "installed", "reboot-requested", "booted", "verified"]
)
def test_a_run_that_was_cut_off_goes_on(state: str) -> None:
    found = decided({"journal": journal("planned", state)}, observation={})
    assert (found.action, found.resumes) == ("move", state)


def test_a_host_on_its_way_back_goes_on_backwards() -> None:
    assert decided({"journal": journal("planned", "installed", "failed", "installed")}).action == "back"


def test_a_move_is_given_up_by_naming_the_stack_it_came_from() -> None:
    found = decided({"journal": journal("planned", "booted", stack="other", previous="new")})
    assert found.action == "back"
    assert "other" in found.reasons[0]


def test_a_third_stack_is_refused_and_both_ways_out_are_named() -> None:
    found = decided({"journal": journal("planned", "booted", stack="other", previous="older")})
    assert found.action == "refuse"
    assert "-e stack=other" in found.reasons[0]
    assert "-e stack=older" in found.reasons[0]


@pytest.mark.parametrize(
    ("observation", "reading", "word"),
    [
        ({"driver": {**WELL["driver"], "error": "timed out after 60 s"}}, {}, "nvidia-smi does not answer"),
        ({"driver": {**WELL["driver"], "loaded": "570.9"}}, {}, "loaded 570.9"),
        ({"driver": {**WELL["driver"], "library": "570.9"}}, {}, "library 570.9"),
        ({"gpus": {"count": 3}}, {}, "lists 3 GPUs, expected 4"),
        ({"driver": None, "errors": {"driver": "no dpkg"}}, {}, "no dpkg"),
        ({}, {"dpkg_broken": ["nvidia-dkms-580"]}, "dpkg --configure -a"),
        (
            {
                "driver": {**WELL["driver"], "nvswitches": 4},
                "units": {"nvidia-fabricmanager.service": {"load": "loaded", "active": False}},
            },
            {},
            "nvidia-fabricmanager.service does not run",
        ),
    ],
)
def test_a_host_that_was_not_well_is_left_alone(
    observation: dict[str, Any], reading: dict[str, Any], word: str
) -> None:
    found = decided(reading, observation={**WELL, **observation})
    assert found.action == "leave"
    assert word in " ".join(found.reasons)


def test_a_fabric_manager_that_has_nothing_to_do_keeps_no_guest_from_moving() -> None:
    ended = {"units": {"nvidia-fabricmanager.service": {"load": "loaded", "active": False, "enabled": True}}}
    assert decided(observation={**WELL, **ended}).action == "move"


def gpus(*checks: tuple[str, str]) -> dict[str, Any]:
    fields = {"expected": "as the profile has it", "observed": "not so", "remedy": "", "command": None}
    return {"gpu_health": {"checks": [{"id": name, "verdict": verdict, **fields} for name, verdict in checks]}}


PROFILE = {"profile": "h100-sxm-4", "hardware": {}, "accept": ["kernel.xid"]}


@pytest.mark.parametrize("verdict", ["fail", "could_not_check"])
def test_a_host_whose_gpus_were_not_right_before_is_left_alone(verdict: str) -> None:
    found = decided(observation={**WELL, **gpus(("gpu.count", "pass"), ("nvlink.links", verdict))}, wanted_gpus=PROFILE)
    assert (found.action, found.reasons) == ("leave", ["nvlink.links: not so, expected as the profile has it"])


@pytest.mark.parametrize("name", ["driver.version", "driver.flavour", "kernel.xid"])
def test_what_a_move_mends_and_what_the_operator_accepts_do_not_keep_a_host(name: str) -> None:
    found = decided(observation={**WELL, **gpus(("gpu.count", "pass"), (name, "fail"))}, wanted_gpus=PROFILE)
    assert found.action == "move"


def test_a_reason_why_the_gpus_are_not_right_is_told_alone() -> None:
    silent = {"driver": {**WELL["driver"], "error": "timed out after 60 s"}, **gpus(("gpu.answer", "fail"))}
    assert len(decided(observation={**WELL, **silent}, wanted_gpus=PROFILE).reasons) == 1


def test_before_its_first_driver_a_host_has_no_versions_to_compare() -> None:
    fresh = {**WELL, "driver": {"installed": None, "loaded": None, "library": None, "error": None}}
    assert unhealthy(fresh, READ, None) == []


def test_a_factory_driver_is_not_changed() -> None:
    found = decided(held_back=["nvidia_driver"])
    assert found.action == "refuse"
    assert "nvidia_driver_policy" in found.reasons[0]


def test_what_forbids_a_driver_to_be_installed_forbids_its_re_pin() -> None:
    found = decided(obstacles=["Secure Boot is on"])
    assert (found.action, found.reasons) == ("refuse", ["Secure Boot is on"])


def test_another_image_is_moved_also_where_the_driver_is_held_back() -> None:
    pending = {"nvidia_driver": [], "inference_image": [{"kind": "image", "key": "x"}]}
    assert decided(pending=pending, held_back=["nvidia_driver"]).action == "move"


@pytest.mark.parametrize(("spent", "action"), [(0, "move"), (2, "move"), (3, "refuse"), (9, "refuse")])
def test_one_reboot_is_kept_for_the_way_back(spent: int, action: str) -> None:
    assert decided({"reboots": ["t"] * spent}, max_reboots=4).action == action


def test_one_host_goes_first_and_the_rest_at_once() -> None:
    assert batches(["a", "b", "c"]) == [["c"], ["b", "a"]]
    assert batches(["a"]) == [["a"]]


def test_a_move_that_is_given_up_is_no_failure() -> None:
    assert decided({"journal": journal("planned", "booted", stack="other", previous="new")}).given_up


def test_a_journal_that_only_was_not_closed_is_over() -> None:
    over = journal("planned", "drained", "failed", "rolled-back", "uncordoned")
    assert decided({"journal": over}).action == "move"
    assert decided({"journal": over}, pending={}).action == "done"


UNITS = {name: {"active": False, "enabled": False} for name in ("firstlight-ray.service", "firstlight-server.service")}


@pytest.mark.parametrize(
    ("units", "reading", "expected"),
    [
        ({"firstlight-ray.service": {"active": True}}, {}, True),
        (UNITS, {}, False),
        ({"firstlight-ray.service": {"active": True}}, {"drained": {"by": "somebody"}}, False),
        (UNITS, {"journal": {**journal("drained"), "drain": {"out_of_service": False}}}, True),
        ({}, {"journal": {**journal("drained"), "drain": {"out_of_service": True}}}, False),
    ],
)
def test_a_host_out_of_service_is_known_by_units_marker_and_journal(units: Any, reading: Any, expected: bool) -> None:
    assert decided(reading, observation={**WELL, "units": units}).in_service is expected


def test_a_host_out_of_service_is_not_moved_for_what_serves() -> None:
    pending = {"ray_cluster": [FILE]}
    assert decided(pending=pending, observation={**WELL, "units": UNITS}).action == "done"
