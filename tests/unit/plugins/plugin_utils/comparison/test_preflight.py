# SPDX-License-Identifier: Apache-2.0
"""The assessment before the first change: every problem, each with what to do."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import State
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.preflight import driver_in_use, problems
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state

from tests.unit.ideal import ideal

EXPECTED: dict[str, Any] = {
    "distributions": [
        {"distribution": "debian", "version": "12"},
        {"distribution": "ubuntu", "version": "24.04"},
    ],
    "links": {"enp1s0f1np1": {}},
    "gpus": {"count": 1, "name": "NVIDIA GB10"},
    "disk_free": {"/srv/models": 400_000_000_000},
}


def seen(**changes: Any) -> State:
    return {**ideal(EXPECTED), **changes}


def gpus(**changes: Any) -> dict[str, Any]:
    return {"count": 1, "names": ["NVIDIA GB10"], "driver": "580.95.05", "error": None, **changes}


def only(observation: State) -> str:
    found = problems(observation, EXPECTED)
    assert len(found) == 1, found
    return found[0]


def test_a_right_host_has_no_problem() -> None:
    assert problems(seen(), EXPECTED) == []


def test_all_problems_are_told_at_once() -> None:
    observation = {
        "facts": {"distribution": "fedora", "version": "42", "disk_free": {"/srv/models": 10}},
        "links": {"enp1s0f1np1": {"exists": False, "mtu": None, "addresses": [], "up": False}},
        "gpus": gpus(count=0, names=[]),
        "errors": {},
    }
    told = problems(observation, EXPECTED)
    assert len(told) == 4
    assert any(
        "distribution is fedora 42, expected debian 12 or ubuntu 24.04" in one and "DGX OS" in one for one in told
    )
    assert any("link enp1s0f1np1 is missing" in one and "firstlight_fabric.rails" in one for one in told)
    assert any("GPUs found are 0 (none), expected 1 NVIDIA GB10" in one and "lspci" in one for one in told)
    assert any("free space at /srv/models" in one and "larger" in one for one in told)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (
            "nvidia-smi returned 18: Failed to initialize NVML: Driver/library version mismatch",
            "reboot the host to load the installed driver",
        ),
        (
            "nvidia-smi returned 9: NVIDIA-SMI failed, it couldn't communicate with the NVIDIA driver.",
            "the kernel module is not loaded",
        ),
        ("nvidia-smi is not installed", "install the NVIDIA driver"),
        ("nvidia-smi gave no answer within 30 s", "the driver hangs"),
        (
            "Unable to determine the device handle for GPU0: 0000:01:00.0: Unknown Error",
            "dropped off the bus",
        ),
        ("nvidia-smi returned 6: No devices were found", "seated"),
        ("nvidia-smi returned 255: something new", "run `nvidia-smi` on the host"),
    ],
)
def test_each_complaint_of_the_driver_has_its_remedy(error: str, remedy: str) -> None:
    observation = seen(gpus=gpus(count=0, names=[], error=error), errors={"gpus": error})
    told = only(observation)
    assert remedy in told
    assert told.count(error) == 1


def test_the_wrong_gpu_points_at_the_hardware_profile() -> None:
    told = only(seen(gpus=gpus(names=["NVIDIA H100 80GB HBM3"])))
    assert "expected 1 NVIDIA GB10" in told
    assert "firstlight_hardware" in told


def test_more_gpus_than_planned_point_at_the_hardware_profile() -> None:
    told = only(seen(gpus=gpus(count=2, names=["NVIDIA GB10"] * 2)))
    assert "a profile with this number of GPUs" in told


def test_a_probe_without_answer_is_a_problem_with_its_reason() -> None:
    told = only(seen(links={}, errors={"links": "ip is not installed"}))
    assert "ip is not installed" in told


def test_disk_that_could_not_be_read_is_a_problem() -> None:
    told = only(seen(facts={"distribution": "debian", "version": "12", "disk_free": {}}))
    assert "could not be read" in told


class TestBeforeTheDriver:
    """A host whose driver the next play brings."""

    DUE: ClassVar[dict[str, Any]] = {**EXPECTED, "gpus": {**EXPECTED["gpus"], "by_bus": True}, "driver": {}}
    SILENT = gpus(count=0, names=[], driver=None, error="nvidia-smi is not installed")

    def test_gpus_are_counted_on_the_bus(self) -> None:
        assert problems(seen(gpus=self.SILENT, driver={"gpus": 1}), self.DUE) == []
        (told,) = problems(seen(gpus=self.SILENT, driver={"gpus": 0}), self.DUE)
        assert told.startswith("NVIDIA GPUs on the PCI bus are 0, expected 1: look for the missing GPU")
        (told,) = problems(seen(gpus=self.SILENT), self.DUE)
        assert "bus are unknown" in told

    def test_an_nvidia_smi_that_answers_is_believed(self) -> None:
        assert "expected 1 NVIDIA GB10" in problems(seen(gpus=gpus(count=0, names=[]), driver={"gpus": 1}), self.DUE)[0]

    def test_it_is_a_variable_of_the_role(self) -> None:
        variables = {"preflight_gpus": EXPECTED["gpus"]}
        assert desired_state("preflight", variables) == {"gpus": EXPECTED["gpus"]}
        due = desired_state("preflight", {**variables, "preflight_driver_due": True})
        assert due == {"gpus": self.DUE["gpus"], "driver": {}}
        assert desired_state("preflight", {"preflight_driver_due": True}) == {}


def difference(kind: str, key: str) -> dict[str, Any]:
    return {"kind": kind, "key": key, "expected": "580.126.20-1", "observed": "580.95.05-1"}


class TestTheDriverUnderAServer:
    """A stack that was edited in the inventory is the re-pin's business once the cluster serves."""

    MOVES: ClassVar[list[dict[str, Any]]] = [difference("package", "nvidia-utils-580"), difference("hold", "x")]
    SERVES: ClassVar[dict[str, Any]] = {
        "units": {"firstlight-ray.service": {"active": True}, "firstlight-server.service": {"active": True}}
    }

    def test_it_is_not_installed(self) -> None:
        (told,) = driver_in_use(self.MOVES, self.SERVES, "install")
        assert told == (
            "package nvidia-utils-580 is version 580.95.05-1, expected version 580.126.20-1, "
            "while firstlight-server.service and firstlight-ray.service run"
        )

    @pytest.mark.parametrize("unit", [{"active": True}, {"active": False, "sub": "start-pre"}])
    @pytest.mark.parametrize("name", ["firstlight-ray.service", "firstlight-server.service"])
    def test_either_unit_is_enough_also_while_it_starts(self, name: str, unit: dict[str, Any]) -> None:
        assert driver_in_use([difference("driver", "installed")], {"units": {name: unit}}, "install")

    def test_many_packages_are_counted(self) -> None:
        moves = [difference("package", f"nvidia-{number}") for number in range(5)]
        assert " and 2 more, while " in driver_in_use(moves, self.SERVES, "install")[0]

    @pytest.mark.parametrize(
        ("kind", "key"),
        [
            ("hold", "nvidia-utils-580"),
            ("file", "/etc/apt/preferences.d/00-firstlight-nvidia"),
            ("unit", "nvidia-persistenced.service"),
            ("package", "linux-headers-6.8.0-60-generic"),
            ("driver", "mig"),
        ],
    )
    def test_what_moves_no_driver_may_be_done(self, kind: str, key: str) -> None:
        assert driver_in_use([difference(kind, key)], self.SERVES, "install") == []

    @pytest.mark.parametrize(
        "units",
        [
            {},
            {"firstlight-ray.service": {"load": "not-found", "active": False, "sub": "dead"}},
            {"firstlight-server.service": {"active": False, "sub": "auto-restart"}},
            {"docker.service": {"active": True}},
        ],
    )
    def test_a_first_bring_up_goes_on(self, units: dict[str, Any]) -> None:
        assert driver_in_use(self.MOVES, {"units": units}, "install") == []
        assert driver_in_use(self.MOVES, {}, "install") == []

    def test_a_driver_that_is_only_verified_moves_nowhere(self) -> None:
        assert driver_in_use(self.MOVES, self.SERVES, "verify-and-hold") == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"repin": "staged", "drained": True}, "it is in the middle of a re-pin (state staged): finish it with"),
        ({"repin": None, "drained": True}, "it was taken out of service (/var/lib/firstlight/drained"),
    ],
)
def test_a_host_that_is_being_moved_is_left_alone(facts: dict[str, Any], words: str) -> None:
    told = only(seen(facts={**ideal(EXPECTED)["facts"], **facts}))
    assert words in told
