# SPDX-License-Identifier: Apache-2.0
"""A guest with some GPUs of an HGX board: told from a machine that lost its NVSwitches, and evaluated by its GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.check import merged
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.diagnose import Capture, diagnose, evaluate
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.partition import as_observed
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.fabric_manager import parse_fabric_manager
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.kernel_log import parse_kernel_log
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import Reading
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_log import parse_smi_log
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_xml import parse_smi_xml
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import CONTENT
from hypothesis import given
from hypothesis import strategies as st

from firstlight_lab.captures import captures

from .damage import hardware

PARTITION, SLICE, EIGHT = hardware("h100-sxm-4-partition"), hardware("h100-sxm-4-nvswitch"), hardware("h100-sxm-8")
ASKED = (
    *("topo", "nvlink", "nvlink-errors", "query-gpu", "smi-xml", "smi-version", "smi-list", "proc-version"),
    *("fabricmanager", "fabricmanager-version", "kernel-log", "lspci", "proc-gpus", "modules"),
)
"""What a gate asks for; `nvidia-smi -q` and the log of the fabric manager are not among it."""


def verdicts(
    expected: Expected, *faults: str, plays: str = "h100-sxm-4-partition", without: tuple[str, ...] = (), **texts: str
) -> dict[str, tuple[str, str]]:
    """Each check with its verdict and what to do. `texts` are in the place of a machine's own, with _ for -."""
    own = captures(plays, tuple(faults))
    said = {name: own[name].text for name in ASKED if name in own and name not in without}
    said |= {name.replace("_", "-"): text for name, text in texts.items()}
    document = diagnose([Capture(name, "gpu0", text, own[name].kind) for name, text in said.items()], expected)
    return {one["id"]: (one["verdict"], one["remedy"]) for one in merged(document["checks"])}


def failing(found: dict[str, tuple[str, str]]) -> list[str]:
    return sorted(name for name, (verdict, _) in found.items() if verdict not in CONTENT)


SHOW = "Id=nvidia-fabricmanager.service\nLoadState={}\nActiveState={}\nSubState={}\nResult={}\nMainPID=0\n"
SERVICES = {
    "absent": SHOW.format("not-found", "inactive", "dead", "success"),
    "ended with nothing to do": SHOW.format("loaded", "failed", "failed", "exit-code"),
    "switched off": SHOW.format("loaded", "inactive", "dead", "success"),
}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("expected", [PARTITION, SLICE], ids=lambda one: one.profile)
def test_a_healthy_partition_passes_as_whatever_it_is_evaluated(expected: Expected, service: str) -> None:
    for found in (verdicts(expected), verdicts(expected, fabricmanager=SERVICES[service])):
        assert failing(found) == []
        assert found["fabric_manager.state"][0] == "pass"
        assert found["topo.pairs"][0] == found["nvlink.links"][0] == "pass"
        for name in ("fabric_manager.service", "gpu.nvswitches", "kernel.sxid"):
            assert found[name][0] == "not_applicable"


@pytest.mark.parametrize("expected", [PARTITION, SLICE], ids=lambda one: one.profile)
def test_a_partition_that_was_not_activated_fails_and_says_who_can_help(expected: Expected) -> None:
    found = verdicts(expected, "partition_inactive")
    assert failing(found) == ["fabric_manager.state"]
    verdict, remedy = found["fabric_manager.state"]
    assert verdict == "fail"
    assert "the owner of the host" in remedy
    assert "driver" in remedy


@pytest.mark.parametrize("expected", [PARTITION, SLICE], ids=lambda one: one.profile)
def test_a_state_that_is_not_told_proves_nothing(expected: Expected) -> None:
    one = captures("h100-sxm-4-partition")
    silent = {name.replace("-", "_"): one[name].text.replace("Completed", "N/A") for name in ("query-gpu", "smi-xml")}
    found = verdicts(expected, without=(), **silent)
    assert (failing(found), found["fabric_manager.state"][0]) == (["fabric_manager.state"], "could_not_check")
    older = one["smi-xml"].text
    for tag in ("state", "status"):
        older = "\n".join(line for line in older.splitlines() if f"<{tag}>" not in line)
    found = verdicts(expected, without=("query-gpu",), smi_xml=older)
    assert found["fabric_manager.state"][0] == "could_not_check"


@pytest.mark.parametrize("expected", [PARTITION, SLICE], ids=lambda one: one.profile)
def test_a_machine_that_has_lost_its_switches_is_no_guest(expected: Expected) -> None:
    """The driver says Completed for as long as it is loaded, and the fabric manager has nothing to do here either."""
    found = verdicts(expected, "nvswitches_lost")
    assert found["gpu.nvswitches"][0] == "fail"
    assert found["fabric_manager.service"][0] == "fail"
    assert "boot the host cold" in found["gpu.nvswitches"][1]


def test_switches_that_a_guest_has_had_since_it_booted() -> None:
    log = captures("h100-sxm-4-partition")["kernel-log"].text
    line = "[    4.100000] nvidia-nvswitch: Probing device 0000:05:00.0, Vendor Id = 0x10de, Device Id = 0x22a3\n"
    assert "gpu.nvswitches" in failing(verdicts(SLICE, kernel_log=log + line))
    assert "gpu.nvswitches" in failing(verdicts(PARTITION, kernel_log=log + line))
    greeting = "[    4.100000] nvidia-nvswitch: Major: 234 Minor: 0\n"
    assert failing(verdicts(SLICE, kernel_log=log + greeting)) == []
    killed = SHOW.format("loaded", "failed", "failed", "signal")
    assert "gpu.nvswitches" in failing(verdicts(SLICE, fabricmanager=killed))


def test_a_fabric_manager_that_runs_where_no_switch_is() -> None:
    found = verdicts(PARTITION, fabricmanager=SHOW.format("loaded", "active", "running", "success"))
    assert failing(found) == ["fabric_manager.service"]
    assert found["fabric_manager.service"][0] == "could_not_check"


def test_a_guest_that_has_the_switches_runs_its_own_fabric() -> None:
    """The whole board passed through, as some clouds do."""
    own = captures("h100-sxm-4-nvswitch")
    virtual = own["smi-xml"].text.replace("<virtualization_mode>None<", "<virtualization_mode>Pass-Through<")
    for expected in (SLICE, PARTITION):
        found = verdicts(expected, plays="h100-sxm-4-nvswitch", smi_xml=virtual)
        assert failing(found) == []
        assert found["gpu.nvswitches"][0] == found["fabric_manager.service"][0] == "pass"
        dead = verdicts(expected, "fabric_manager_dead", plays="h100-sxm-4-nvswitch", smi_xml=virtual)
        assert {"fabric_manager.service", "fabric_manager.state"} <= set(failing(dead))


def test_nobody_says_whether_it_is_a_guest() -> None:
    """Then the profile counts, which the operator has chosen, and without it the machine is taken for a sick one."""
    assert failing(verdicts(PARTITION, without=("smi-xml",))) == []
    assert "gpu.nvswitches" in failing(verdicts(SLICE, without=("smi-xml",)))


def test_a_guest_whose_bus_nobody_has_listed() -> None:
    """No listing, or half of one, proves that there is no NVSwitch; the fabric manager's own word does."""
    ended = SERVICES["ended with nothing to do"]
    half = captures("h100-sxm-4-partition")["lspci"].text + "# 9 PCI devices in all, 6 of NVIDIA's\n"
    some = "$ lspci -n -d 10de: | grep 0302\n" + captures("h100-sxm-4-partition")["lspci"].text
    for found in (
        verdicts(SLICE, without=("lspci",), fabricmanager=ended),
        verdicts(SLICE, lspci=half, fabricmanager=ended),
        verdicts(SLICE, lspci=some, fabricmanager=ended),
    ):
        assert found["fabric_manager.service"][0] == found["fabric_manager.state"][0] == "fail"
    said = verdicts(SLICE, without=("lspci",))
    assert (said["fabric_manager.service"][0], said["fabric_manager.state"][0]) == ("not_applicable", "pass")


def test_a_partition_without_nvlink_is_refused_with_the_right_remedy() -> None:
    for expected in (PARTITION, SLICE):
        found = verdicts(expected, "nvlink_absent")
        for name in ("topo.pairs", "nvlink.links"):
            assert found[name][0] == "fail"
            assert "the owner of the host" in found[name][1]
            assert "start the fabric manager" not in found[name][1]


def test_eight_gpus_in_a_guest_are_evaluated_alike() -> None:
    """A whole board whose fabric its cloud runs, as Google's."""
    own = captures("h100-sxm-8")
    texts = {
        "smi_xml": own["smi-xml"].text.replace("<virtualization_mode>None<", "<virtualization_mode>Pass-Through<"),
        "lspci": "".join(line for line in own["lspci"].text.splitlines(keepends=True) if " 0680:" not in line),
        "kernel_log": "".join(line for line in own["kernel-log"].text.splitlines(True) if "nvswitch" not in line),
        "fabricmanager": SERVICES["ended with nothing to do"],
    }
    assert failing(verdicts(EIGHT, plays="h100-sxm-8", without=(), **texts)) == []


def test_what_the_driver_says_of_virtualisation_is_read() -> None:
    own = captures("h100-sxm-4-partition")
    for parse, text in ((parse_smi_xml, own["smi-xml"].text), (parse_smi_log, own["smi-q"].text)):
        assert [gpu["virtualization_mode"] for gpu in parse(text)[0]["gpus"]] == ["Pass-Through"] * 4
        other = parse(text.replace("Pass-Through", "A New Word"))
        assert (other[0]["gpus"][0]["virtualization_mode"], other[1]) == ("A New Word", [])


def test_an_nvswitch_in_the_kernel_s_log() -> None:
    def found(text: str) -> bool:
        return bool(parse_kernel_log(text)[0]["found_nvswitch"])

    assert found(captures("h100-sxm-8")["kernel-log"].text)
    assert not found(captures("h100-sxm-4-partition")["kernel-log"].text)


# --- every combination of what may be told ---------------------------------------------------------------------------

FOUR = Expected("four", 4, "x", links_per_gpu=18, nvswitch=True)
LOG = "[    0.000000] Linux version 6.8.0\n[    4.2] NVRM: loading NVIDIA UNIX Open Kernel Module  580.126.09\n"


def bus(switches: int) -> Reading:
    listed = [{"bus": f"00000000:0{number}:00.0"} for number in range(8)]
    return Reading("lspci", {"gpus": listed[:4], "nvswitches": listed[4 : 4 + switches], "part": False}, (), "lspci")


def smi(mode: str | None, states: list[tuple[str | None, str | None]]) -> Reading:
    gpus: list[dict[str, Any]] = [
        {"index": index, "fabric.state": state, "fabric.status": status, "virtualization_mode": mode}
        for index, (state, status) in enumerate(states)
    ]
    return Reading("smi-xml", {"gpus": gpus, "driver": "580.126.09", "complete": True}, (), "smi-xml")


def told(kind: str, text: str) -> Reading:
    data, problems = (parse_fabric_manager if kind == "fabricmanager" else parse_kernel_log)(text)
    return Reading(kind, data, tuple(problems), kind)


COMPLETED = ("Completed", "Success")
MODES = ("None", "Pass-Through", "VGPU", "Host VGPU", None)


@given(
    declared=st.booleans(),
    mode=st.sampled_from(MODES),
    switches=st.sampled_from([None, 0, 1, 4]),
    states=st.lists(st.sampled_from([COMPLETED, ("In Progress", None), (None, None)]), min_size=4, max_size=4),
    service=st.sampled_from([None, *SERVICES.values(), SHOW.format("loaded", "active", "running", "success")]),
    switched=st.booleans(),
)
def test_only_two_kinds_of_machine_ever_pass(
    declared: bool,
    mode: str | None,
    switches: int | None,
    states: list[tuple[str | None, str | None]],
    service: str | None,
    switched: bool,
) -> None:
    log = LOG + ("[    4.1] nvidia-nvswitch0: using MSI\n" if switched else "")
    readings = [smi(mode, states), told("kernel-log", log)]
    readings += [] if switches is None else [bus(switches)]
    readings += [] if service is None else [told("fabricmanager", f"{service}Fabric Manager version is : 580.126.09\n")]
    expected = replace(FOUR, fabric_by_host=declared)
    seen = {one["id"]: one["verdict"] for one in merged(evaluate(readings, expected))}
    right = ("fabric_manager.state", "fabric_manager.service", "gpu.nvswitches")
    content = all(seen.get(name, "pass") in CONTENT for name in right) and seen["fabric_manager.state"] == "pass"
    runs = service is not None and "ActiveState=active" in service
    own = runs and switches != 0
    guest = not switched and not switches and mode in ("Pass-Through", "VGPU", None) and not runs
    all_completed = states == [COMPLETED] * 4
    if content:
        assert all_completed
        assert own or guest
        assert own or declared or (mode is not None and switches == 0)
    if all_completed and guest and mode and switches == 0:
        assert content, seen


def test_hardware_without_switches_is_no_partition() -> None:
    mesh = hardware("h100-sxm-4")
    assert as_observed([bus(0), smi("Pass-Through", [COMPLETED] * 4)], mesh) is mesh
