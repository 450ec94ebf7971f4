# SPDX-License-Identifier: Apache-2.0
"""The driver of one host: verdicts, what it says, and what it does with a host that goes away."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.action.repin import would_do
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.mover import RefusedError, UnreachableError

GATES = {"gates": {"sysctl": {"gate": "good"}}}


def test_forward(bench: Any) -> None:
    bench.prepare()
    outcome = bench.move(verify=GATES)
    assert (outcome.outcome, outcome.problem, outcome.changed) == ("verified", "", True)
    steps = ["staging", "installing", "verifying", "rebooting for driver 580.2", "booted", "verifying", "verified"]
    assert bench.said == steps
    last = outcome.result()["timeline"][-1]
    assert last["state"] == "verified"
    assert "gates: 1 sysctl" in last["detail"]["verified"]
    assert any("driver 580.2 installed, loaded and in use" in one for one in last["detail"]["verified"])
    again = bench.move(verify=GATES)
    assert (again.outcome, again.changed) == ("verified", False)


DESCRIBED: dict[str, Any] = {"runtime": {"cdi": {"/etc/cdi/nvidia.json": {}}}}
CDI_SPEC = ("firstlight.cluster.services", {"desired": {"cdi": {"/etc/cdi/nvidia.json": {}}}, "answer_timeout": 60})


def test_the_gpus_are_described_anew_for_the_driver_that_was_loaded(bench: Any) -> None:
    bench.prepare()
    assert bench.move(verify=DESCRIBED).outcome == "verified"
    assert bench.fixed == [CDI_SPEC]
    assert bench.move(direction="back", reason="x", verify_rollback=DESCRIBED).outcome == "rolled-back"
    assert bench.described == "580.1"


def test_a_description_that_cannot_be_made_is_a_failed_gate(bench: Any) -> None:
    bench.cannot_mend = CDI_SPEC[0]
    bench.prepare()
    outcome = bench.move(verify=DESCRIBED)
    assert outcome.outcome == "rolled-back"
    assert "/etc/cdi/nvidia.json" in outcome.problem


def test_settings_of_the_daemon_are_written_and_the_daemon_started_anew(bench: Any, monkeypatch: Any) -> None:
    bench.prepare()
    real, path = bench.observe, "/etc/docker/daemon.json"
    state = {
        "json_files": {path: {"settings": {"a": 1}, "whole": [], "mode": "0644"}},
        "units": {"docker.service": {"if_present": True}},
    }

    def observed(desired: Any) -> dict[str, Any]:
        settings = {"a": 1} if bench.fixed else {}
        file = {"exists": True, "error": None, "settings": settings, "mode": "0644", "owner": "root", "group": "root"}
        return {**real(desired), "json_files": {path: file}, "units": {"docker.service": {"load": "loaded"}}}

    monkeypatch.setattr(bench, "observe", observed)
    assert bench.move(verify={"runtime": state}).outcome == "verified"
    (fixed,) = bench.fixed
    assert fixed[0] == "firstlight.cluster.services"
    assert fixed[1]["stop"] == ["docker.socket", "docker.service"], "the socket would start it with former settings"
    assert fixed[1]["desired"]["json_files"]["/etc/docker/daemon.json"]["settings"] == {"a": 1}


def docker(bench: Any, monkeypatch: Any, right: Any) -> dict[str, Any]:
    """A state whose settings are right when `right` says so, and a host that has them or not."""
    real, path = bench.observe, "/etc/docker/daemon.json"

    def observed(desired: Any) -> dict[str, Any]:
        settings = {"a": 1} if right() else {}
        file = {"exists": True, "error": None, "settings": settings, "mode": "0644", "owner": "root", "group": "root"}
        unit = {"load": "loaded", "active": False, "enabled": True, "sub": "dead"}
        return {**real(desired), "json_files": {path: file}, "units": {"docker.service": unit}}

    monkeypatch.setattr(bench, "observe", observed)
    return {
        "json_files": {path: {"settings": {"a": 1}, "whole": [], "mode": "0644"}},
        "units": {"docker.service": {"if_present": True}},
    }


def test_settings_that_cannot_be_mended_are_tried_once(bench: Any, monkeypatch: Any) -> None:
    bench.host.units["docker.service"] = [True, True]
    bench.prepare()
    state = docker(bench, monkeypatch, lambda: False)
    state["units"] = {"docker.service": {"active": True}}
    bench.host.did.clear()
    outcome = bench.move(verify={"runtime": state})
    assert outcome.outcome == "rolled-back"
    assert "/etc/docker/daemon.json" in outcome.problem
    (fixed,) = bench.fixed
    assert fixed[0] == "firstlight.cluster.services"
    assert fixed[1]["stop"] == ["docker.socket", "docker.service"]
    assert fixed[1]["desired"]["json_files"]["/etc/docker/daemon.json"]["settings"] == {"a": 1}
    assert "systemctl restart" not in bench.host.did


def test_a_daemon_sees_the_settings_that_came_back(bench: Any) -> None:
    bench.host.units["docker.service"] = [True, True]
    bench.prepare()
    bench.do("stage")
    bench.do("install", direction="forward")
    restart = {"docker.service": [str(bench.file)]}
    bench.host.did.clear()
    # The former driver is still the loaded one: there is no reboot that would do it.
    assert bench.move(direction="back", restart=restart).outcome == "rolled-back"
    assert (bench.host.boots, bench.host.did.count("systemctl restart")) == (0, 1)
    assert bench.file.read_text() == "old\n"


def test_cuts_that_are_far_between_are_no_reason_to_give_up(bench: Any, monkeypatch: Any) -> None:
    bench.prepare()
    real = bench.module
    due = {"stage": 2, "install": 2, "request_reboot": 2, "note": 2}

    def shaky(action: str, arguments: Any) -> dict[str, Any]:
        if due.get(action):
            due[action] -= 1
            raise UnreachableError("cut off")
        return dict(real(action, arguments))

    monkeypatch.setattr(bench, "module", shaky)
    assert bench.move().outcome == "verified"
    due["install"] = 9
    outcome = bench.move(direction="back")
    assert "was cut off 4 times" in outcome.problem


def test_a_set_that_an_upgrade_would_move_is_a_failed_gate(bench: Any) -> None:
    bench.host.upgrade = "Inst libc6 [2.39] (2.40 x)\nInst nvidia-utils-580 [580.2-1] (580.3-1 x)\n"
    bench.prepare()
    outcome = bench.move(verify=GATES)
    # The rollback is not measured by it: it is what was there.
    assert (outcome.outcome, bench.on_old) == ("rolled-back", True)
    assert "would change nvidia-utils-580 from 580.2-1 to 580.3-1, expected nothing" in outcome.problem
    assert "libc6" not in outcome.problem


def test_the_set_of_the_journal_counts_and_not_what_the_roles_make_of_the_new_host(bench: Any) -> None:
    """Their states name packages of the release that are there, and these have changed."""
    roles = {
        "nvidia_driver": {
            "packages": {"nvidia-utils-580": "580.9-9"},
            "holds": {"nvidia-utils-580": True, "nvidia-firmware-580.2": False},
            "files": {str(bench.file): {"content": "another\n"}},
        }
    }
    bench.prepare()
    assert bench.move(verify=roles).outcome == "verified"
    # What the journal does not know is the roles' to tell.
    stranger = {"nvidia_driver": {"holds": {"stranger": True}, "files": {"/etc/stranger": {"content": "x"}}}}
    bench.do("note", state="failed", direction="forward", detail={"at": "verified", "reason": "x"})
    bench.move()
    bench.do("uncordon")
    bench.prepare(id="move-2")
    outcome = bench.move(verify=stranger)
    assert outcome.outcome == "rolled-back"
    assert "stranger" in outcome.problem
    assert "/etc/stranger" in outcome.problem


def test_a_hold_that_was_lost_is_found_by_the_journal(bench: Any) -> None:
    bench.prepare()
    bench.do("stage")
    bench.do("install", direction="forward")
    bench.host.power_up()
    bench.host.held.discard("nvidia-utils-580")
    outcome = bench.move(verify={})
    assert "package nvidia-utils-580 is not held, expected held" in outcome.problem


def test_no_reboot_where_no_package_moved(bench: Any) -> None:
    bench.host.loaded = "570.1"
    bench.prepare(to={"packages": {"libc6": None}, "holds": [], "files": {}}, from_packages=[])
    outcome = bench.move(verify={"nvidia_driver": {"driver": {"package": "nvidia-driver-580-open"}}})
    assert (outcome.outcome, bench.host.boots) == ("rolled-back", 0)
    assert "driver" in outcome.problem


def test_a_failed_gate_goes_back_by_itself(bench: Any) -> None:
    bench.host.broken_gates.add("580.2")
    bench.prepare()
    outcome = bench.move(verify=GATES, verify_rollback=GATES)
    assert (outcome.outcome, bench.on_old) == ("rolled-back", True)
    assert outcome.problem == "failed at booted: sysctl gate is bad, expected good"
    # A later run to the same stack finds it there and leaves it.
    assert bench.move(verify=GATES).outcome == "rolled-back"


GPUS: dict[str, Any] = {
    "gpu_verify": {"gpu_health": {"profile": "h100-sxm-8", "hardware": {"gpus": 8, "gpu_name": "H100"}, "accept": []}}
}


def test_gpus_that_are_right_after_the_move_are_in_the_journal(bench: Any) -> None:
    bench.prepare()
    outcome = bench.move(verify=GPUS)
    assert outcome.outcome == "verified"
    assert "gpu_verify: GPUs as in profile h100-sxm-8" in outcome.result()["timeline"][-1]["detail"]["verified"]


def test_a_driver_with_which_a_gpu_is_not_right_goes_back(bench: Any) -> None:
    bench.host.broken_gates.add("580.2")
    bench.prepare()
    outcome = bench.move(verify=GPUS)
    assert (outcome.outcome, bench.on_old) == ("rolled-back", True)
    assert outcome.problem == "failed at booted: nvlink.links fails: 17 links, expected 18 links; reseat it"


def test_a_driver_that_does_not_load_goes_back(bench: Any) -> None:
    bench.host.unloadable.add("580.2")
    bench.prepare()
    outcome = bench.move()
    assert (outcome.outcome, bench.host.loaded) == ("rolled-back", "580.1")
    assert "loaded driver module is none, expected 580.2" in outcome.problem


def test_a_way_back_that_does_not_hold_leaves_the_host_drained(bench: Any) -> None:
    bench.host.broken_gates |= {"580.1", "580.2"}
    bench.prepare()
    outcome = bench.move(verify=GATES, verify_rollback=GATES)
    assert outcome.outcome == "failed"
    assert "It failed at booted" in outcome.problem
    assert "During the rollback: sysctl gate is bad" in outcome.problem
    assert outcome.problem.endswith("The host stays drained")
    assert (bench.root / "drained").exists()
    bench.host.broken_gates.clear()
    assert bench.move(verify_rollback=GATES).outcome == "rolled-back"
    assert bench.on_old


def test_a_transaction_that_fails_goes_back(bench: Any) -> None:
    bench.prepare()
    bench.do("stage")
    bench.host.failing.add("apt-get install")
    outcome = bench.move()
    # Nothing moved, so the rollback has nothing to do either.
    assert (outcome.outcome, bench.on_old) == ("rolled-back", True)
    assert "failed at staged" in outcome.problem


def test_no_reboot_where_the_loaded_driver_is_the_installed_one(bench: Any) -> None:
    bench.prepare()
    bench.do("stage")
    bench.do("install", direction="forward")
    bench.host.power_up()
    assert bench.move().outcome == "verified"
    assert bench.do("read")["reboots"] == []


def test_a_host_that_never_comes_back_is_lost_and_can_be_found_again(bench: Any) -> None:
    bench.prepare()
    gone = {"is": True}
    answer = type(bench).boot_id

    def silent() -> str:
        if gone["is"]:
            raise UnreachableError("no route to host")
        return str(answer(bench))

    bench.boot_id = silent
    outcome = bench.move()
    assert outcome.outcome == "lost"
    assert "did not come back within 60 s" in outcome.problem
    gone["is"] = False
    bench.host.power_up()
    assert bench.move(direction="back", reason="the group went back").outcome == "rolled-back"
    assert bench.on_old


def test_a_host_that_does_not_reboot_goes_back(bench: Any) -> None:
    bench.prepare()
    bench.boot_id = lambda: bench.host.boot
    outcome = bench.move()
    assert (outcome.outcome, bench.on_old) == ("rolled-back", True)
    assert "did not reboot within 60 s" in outcome.problem


def test_a_silent_host_is_lost(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.prepare()

    def silent(action: str, arguments: Any) -> dict[str, Any]:
        raise UnreachableError("timed out")

    monkeypatch.setattr(bench, "module", silent)
    outcome = bench.move()
    assert outcome.outcome == "lost"
    assert "no answer for 30 s (timed out)" in outcome.problem


@pytest.mark.parametrize("prepared", ["nothing", "begun", "drained"])
def test_back_where_nothing_changed_ends_at_once(bench: Any, prepared: str) -> None:
    if prepared == "begun":
        bench.begin()
    elif prepared == "drained":
        bench.prepare()
    bench.host.did.clear()
    outcome = bench.move(direction="back", reason="spark1 failed")
    assert (outcome.outcome, outcome.result()["unchanged_host"]) == ("rolled-back", True)
    assert not any("apt-get" in one for one in bench.host.did)


def test_a_host_that_serves_is_not_moved(bench: Any) -> None:
    bench.begin()
    bench.do("fetch")
    outcome = bench.move()
    assert (outcome.outcome, outcome.changed) == ("failed", False)
    assert "drain it" in outcome.problem


def test_a_full_disk_in_the_middle_is_told(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.prepare()
    real = bench.module

    def full(action: str, arguments: Any) -> dict[str, Any]:
        if action in ("stage", "note"):
            raise RefusedError("No space left on device")
        return dict(real(action, arguments))

    monkeypatch.setattr(bench, "module", full)
    outcome = bench.move()
    assert outcome.outcome == "failed"
    assert "The journal cannot be written either" in outcome.problem


def test_check_mode_tells_the_next_step(bench: Any) -> None:
    arguments = {"direction": "forward", "reason": ""}
    assert "begin one first" in would_do(bench.do("read"), arguments)["problem"]
    bench.prepare()
    told = would_do(bench.do("read"), arguments)
    assert (told["would"], told["changed"]) == (["staging"], True)
    bench.move()
    assert would_do(bench.do("read"), arguments)["changed"] is False
