# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import (
    builds_module,
    bystanders,
    exec_start,
    is_part,
    leaving,
    mixed,
    module_package,
    pins_another,
    precompiled,
    problems,
    reboot_blockers,
    reboot_required,
    with_persistence,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import check_vocabulary
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain

from tests.unit.ideal import ideal

WANT = {"package": "nvidia-dkms-580-open", "version": "580.126.09", "branch": "580", "flavour": "open", "mig": False}
QUIET: dict[str, Any] = {"mig": {"current": False, "pending": False}, "secure_boot": False, "signing": False}


def told(want: dict[str, Any], **changes: Any) -> list[str]:
    observed = {**ideal({"driver": want})["driver"], **changes}
    return explain(differences({"driver": want}, {"driver": observed}))


@pytest.mark.parametrize(
    ("names", "package"),
    [
        (["nvidia-utils-580", "nvidia-driver-580-open", "nvidia-dkms-580-open"], "nvidia-dkms-580-open"),
        (["linux-modules-nvidia-580-generic", "nvidia-driver-580-server"], "nvidia-driver-580-server"),
        (["nvidia-open", "libnvidia-compute"], "nvidia-open"),
        (["nvidia-kernel-open-dkms", "nvidia-driver"], "nvidia-kernel-open-dkms"),
        (["nvidia-open", "nvidia-driver-open", "nvidia-dkms-open"], "nvidia-dkms-open"),
        (["nvidia-driver-pinning-590", "nvidia-driver-assistant", "nvidia-open"], "nvidia-open"),
        (
            ["linux-modules-nvidia-580-open-generic", "nvidia-headless-no-dkms-580-open"],
            "nvidia-headless-no-dkms-580-open",
        ),
        (["nvidia-driverless", "docker.io"], None),
    ],
)
def test_the_package_that_is_the_driver(names: list[str], package: str | None) -> None:
    assert module_package(names) == package


def test_only_dkms_builds() -> None:
    assert builds_module(["nvidia-dkms-580-open"])
    assert builds_module(["nvidia-kernel-open-dkms"])
    assert not builds_module(["linux-modules-nvidia-580-generic", "nvidia-driver-580"])
    assert not builds_module(["linux-modules-nvidia-580-open-generic", "nvidia-headless-no-dkms-580-open"])
    assert precompiled(["nvidia-utils-580", "linux-modules-nvidia-580-generic"]) == ["linux-modules-nvidia-580-generic"]


def test_a_driver_is_right_when_all_three_are_the_pin() -> None:
    assert told(WANT) == []
    assert told(WANT, loaded="580.95.05", library="580.126", error="Driver/library version mismatch") == [
        "loaded driver module is 580.95.05, expected 580.126.09",
        "driver library is 580.126, expected 580.126.09",
        "nvidia-smi does not answer (Driver/library version mismatch), expected an answer",
    ]
    assert told(WANT, installed=None, loaded=None, library=None) == [
        "installed driver is none, expected 580.126.09",
        "loaded driver module is none, expected 580.126.09",
        "driver library is none, expected 580.126.09",
    ]


def test_kind_of_module_nouveau_and_mig() -> None:
    assert told(WANT, flavour="proprietary", nouveau=True, mig={"current": False, "pending": True}) == [
        "kernel module is proprietary, expected open",
        "nouveau, which takes the GPU first, is loaded, expected not loaded",
        "MIG is on after the next reset, expected off",
    ]


def test_a_branch_accepts_its_versions_but_not_two_of_them() -> None:
    branch = {"package": "nvidia-driver-580-open", "version": None, "branch": "580"}
    assert told(branch, installed="580.142", loaded="580.142", library="580.142") == []
    assert told(branch, installed="580.142", loaded="580.95.05", library="580.142") == [
        "loaded driver module is 580.95.05, expected 580.142"
    ]
    assert told(branch, installed="590.48.01")[0] == "installed driver is 590.48.01, expected branch 580"


def test_what_was_not_looked_at_is_not_right() -> None:
    assert explain(differences({"driver": WANT, "holds": {"a": True}}, {})) == [
        "package a is unknown, expected held",
        "installed driver is unknown, expected 580.126.09",
    ]
    assert explain(differences({"holds": {"a": True}}, {"holds": {"a": False}})) == [
        "package a is not held, expected held"
    ]


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown fields flavor"):
        check_vocabulary({"driver": {"flavor": "open"}})


@pytest.mark.parametrize(
    ("installed", "loaded", "nouveau", "required"),
    [
        ("580.126.09", "580.95.05", False, True),
        ("580.126.09", None, False, True),
        ("580.126.09", "580.126.09", False, False),
        ("580.126.09", "580.126.09", True, True),
        (None, None, True, False),
        (None, "580.95.05", False, False),
    ],
)
def test_a_reboot_is_due_when_loaded_is_not_installed(
    installed: str | None, loaded: str | None, nouveau: bool, required: bool
) -> None:
    assert reboot_required(installed, loaded, nouveau) is required


def test_mig_stands_in_the_way_unless_it_may() -> None:
    on = {**QUIET, "mig": {"current": False, "pending": True}}
    assert problems(QUIET, ["nvidia-dkms-580"], mig_ok=False, signing_ok=False) == []
    assert "off now and on after the next reset" in problems(on, [], mig_ok=False, signing_ok=False)[0]
    assert problems(on, [], mig_ok=True, signing_ok=False) == []


def test_secure_boot_stands_in_the_way_of_a_module_nobody_signs() -> None:
    secure = {**QUIET, "secure_boot": True}
    assert "Secure Boot is on" in problems(secure, ["nvidia-dkms-580"], mig_ok=False, signing_ok=False)[0]
    assert problems(secure, ["nvidia-driver-580"], mig_ok=False, signing_ok=False) == []
    assert problems(secure, ["nvidia-dkms-580"], mig_ok=False, signing_ok=True) == []
    assert problems({**secure, "signing": True}, ["nvidia-dkms-580"], mig_ok=False, signing_ok=False) == []


def test_a_secure_boot_that_cannot_be_read_stands_in_the_way_too() -> None:
    unknown = {**QUIET, "secure_boot": None}
    assert "whether Secure Boot is on cannot be read" in problems(unknown, ["nvidia-dkms-580"], False, False)[0]
    assert problems(unknown, ["nvidia-dkms-580"], mig_ok=False, signing_ok=True) == []
    assert problems(unknown, ["nvidia-driver-580"], mig_ok=False, signing_ok=False) == []


def test_a_kernel_without_headers_that_the_reboot_would_start_stands_in_the_way() -> None:
    after: dict[str, Any] = {"version": "6.8.0-61-generic", "headers": False}
    waiting = {**QUIET, "kernel": "6.8.0-60-generic", "next_kernel": after, "installed": "580.95.05"}
    (told,) = problems(waiting, ["nvidia-dkms-580"], False, False, WANT)
    assert "would start the kernel 6.8.0-61-generic" in told
    assert "Install linux-headers-6.8.0-61-generic" in told
    assert problems(waiting, iter(["nvidia-dkms-580"]), mig_ok=False, signing_ok=False) == [told]
    assert problems(
        {**waiting, "installed": "580.126.09", "reboot_required": True}, ["nvidia-dkms-580"], False, False, WANT
    )
    for fine in (
        {"installed": "580.126.09", "reboot_required": False},
        {"next_kernel": {**after, "headers": True}},
        {"next_kernel": {**after, "version": "6.8.0-60-generic"}},
        {"next_kernel": None},
    ):
        assert problems({**waiting, **fine}, ["nvidia-dkms-580"], False, False, WANT) == []
    assert problems(waiting, ["linux-modules-nvidia-580-generic", "nvidia-driver-580"], False, False, WANT) == []


def test_a_gpu_that_hangs_stands_in_the_way() -> None:
    hung = {**QUIET, "silent": True, "error": "nvidia-smi gave no answer within 60 s"}
    found = problems(hung, ["nvidia-dkms-580"], mig_ok=True, signing_ok=True)
    assert len(found) == 1
    assert found[0].startswith("nvidia-smi gave no answer within 60 s, expected an answer")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("libnvidia-compute-580-server", True),
        ("nvidia-dkms-open", True),
        ("nvidia-open", True),
        ("nvidia-kernel-source-580-open", True),
        ("xserver-xorg-video-nvidia-580", True),
        ("nvidia-firmware-580-580.95.05", False),
        ("nvidia-container-toolkit", False),
        ("nvidia-settings", False),
        ("libnvidia-container1", False),
        ("libnvidia-egl-wayland1", False),
        ("nvidia-driver-pinning-590", False),
    ],
)
def test_what_works_only_with_its_own_driver(name: str, part: bool) -> None:
    assert is_part(name) is part


def test_parts_of_two_releases_are_a_difference() -> None:
    there = {"nvidia-dkms-580": "580.126.09", "libnvidia-gl-560": "560.35.05", "nvidia-settings": "510.47.03"}
    assert mixed(there, "580.126.09") == ["libnvidia-gl-560 560.35.05"]
    assert told(WANT, mixed=mixed(there, "580.126.09")) == [
        "parts of another driver release installed: libnvidia-gl-560 560.35.05, expected none"
    ]


def test_what_goes_with_the_driver_that_is_there() -> None:
    observed = {"installed": "580.95.05", "related": ["nvidia-utils-580"], "mixed": ["libnvidia-gl-560 560.35.05"]}
    assert leaving(observed, WANT) == ["libnvidia-gl-560", "nvidia-utils-580"]
    assert leaving({**observed, "installed": "580.126.09"}, WANT) == []
    assert leaving({"installed": None}, WANT) == []


AROUND = {
    "cuda-drivers-570": "570.124.06-0ubuntu1",
    "libnvidia-nscq-570": "570.124.06-1",
    "nvidia-imex": "580.105.08-1",
    "nvidia-open-570": "570.124.06-0ubuntu1",
    "linux-objects-nvidia-570-server-6.8.0-60-generic": "6.8.0-60.63",
    "nvidia-driver-pinning-570": "570-1",
    "nvidia-container-toolkit": "1.18.2-1",
    "libxnvctrl0": "570.124.06-0ubuntu1",
}


def test_metapackages_and_companions_of_any_release_go_too() -> None:
    observed = {"installed": "570.195.03", "related": ["libxnvctrl0", "nvidia-settings"], "others": AROUND}
    assert leaving(observed, WANT) == [
        *("cuda-drivers-570", "libnvidia-nscq-570", "linux-objects-nvidia-570-server-6.8.0-60-generic"),
        *("nvidia-driver-pinning-570", "nvidia-imex", "nvidia-open-570", "nvidia-settings"),
    ]
    assert leaving({**observed, "installed": "580.126.09"}, {**WANT, "remove": ["cuda"]}) == []


def test_what_the_operator_names_goes_whatever_it_is() -> None:
    observed = {"installed": "570.195.03", "related": ["libxnvctrl0"]}
    assert leaving(observed, {**WANT, "remove": ["cuda-12-8", "libxnvctrl0"]}) == ["cuda-12-8", "libxnvctrl0"]


@pytest.mark.parametrize(
    ("name", "another"),
    [
        ("nvidia-driver-pinning-570", True),
        ("nvidia-driver-pinning-580.95.05", True),
        ("nvidia-driver-pinning", True),
        ("nvidia-driver-pinning-580", False),
        ("nvidia-driver-pinning-580.126.09", False),
        ("nvidia-driver-assistant", False),
    ],
)
def test_preferences_of_another_driver(name: str, another: bool) -> None:
    assert pins_another(name, WANT) is another
    assert pins_another(name, {"version": "580.126.09"}) is another


def test_what_a_metapackage_that_is_no_driver_brought_is_spared() -> None:
    gone = ["cuda", "cuda-12-8", "cuda-drivers-570", "lambda-stack-cuda", "nvidia-settings", "linux-modules-nvidia-570"]
    assert bystanders(gone) == ["cuda", "cuda-12-8", "lambda-stack-cuda"]


def test_a_driver_without_packages_stands_in_the_way() -> None:
    there = {**QUIET, "runfile": "/usr/bin/nvidia-uninstall", "installed": None}
    (told,) = problems(there, ["nvidia-dkms-580"], False, False, WANT)
    assert "(/usr/bin/nvidia-uninstall is there), expected it from packages only" in told
    assert problems({**there, "installed": "580.126.09"}, ["nvidia-dkms-580"], False, False, WANT) == []


LIMITED = {**WANT, "kernel_below": "7.0"}


@pytest.mark.parametrize(
    ("running", "after", "told"),
    [
        ("6.17.0-1014-nvidia", "6.17.0-1014-nvidia", ""),
        ("6.8.0-60-generic", "7.0.0-28-generic", "the kernel of the next boot is 7.0.0-28-generic"),
        (
            "7.1.0-3-generic",
            "7.1.0-3-generic",
            "the running kernel is 7.1.0-3-generic and the kernel of the next boot is",
        ),
        ("7.0.0-28-generic", None, "the running kernel is 7.0.0-28-generic, expected one before 7.0"),
    ],
)
def test_a_kernel_that_the_driver_does_not_build_on_stands_in_the_way(
    running: str, after: str | None, told: str
) -> None:
    next_kernel = {"version": after, "headers": True} if after else None
    host = {**QUIET, "kernel": running, "next_kernel": next_kernel, "installed": "580.95.05"}
    found = problems(host, ["nvidia-dkms-580-open"], False, False, LIMITED)
    assert len(found) == bool(told)
    assert told in "".join(found)
    assert problems(host, ["nvidia-dkms-580-open"], False, False, WANT) == []
    assert problems(host, ["linux-modules-nvidia-580-open-generic"], False, False, LIMITED) == []
    assert problems({**host, "installed": "580.126.09"}, ["nvidia-dkms-580-open"], False, False, LIMITED) == []


AFTER: dict[str, Any] = {
    "version": "6.8.0-61-generic",
    "headers": True,
    "module": "580.126.09",
    "error": None,
    "builds": [],
}


def test_a_reboot_needs_the_module_of_the_kernel_that_it_starts() -> None:
    ready = {"installed": "580.126.09", "next_kernel": AFTER}
    assert reboot_blockers(ready) == []
    assert reboot_blockers({**ready, "next_kernel": None}) == [], "a container has no kernel to boot"
    assert reboot_blockers({**ready, "installed": None}) == []
    builds = ["nvidia 580.126.09 is added"]
    (told,) = reboot_blockers({**ready, "next_kernel": {**AFTER, "module": None, "builds": builds}})
    assert "starts the kernel 6.8.0-61-generic, whose module nvidia is missing, expected 580.126.09 there" in told
    assert "DKMS says: nvidia 580.126.09 is added." in told
    assert "`dkms autoinstall -k 6.8.0-61-generic`" in told
    (told,) = reboot_blockers({**ready, "next_kernel": {**AFTER, "module": "580.95.05"}})
    assert "is of version 580.95.05, expected 580.126.09" in told
    unread = {**AFTER, "module": None, "error": "modinfo is not installed"}
    assert "cannot be read (modinfo is not installed)" in reboot_blockers({**ready, "next_kernel": unread})[0]


def test_modules_of_kernels_stay_where_the_set_is_precompiled() -> None:
    modules = ["linux-modules-nvidia-580-open-6.8.0-60-generic", "linux-objects-nvidia-580-open-6.8.0-60-generic"]
    observed = {"installed": "580.95.05", "related": ["nvidia-settings", *modules]}
    assert leaving(observed, WANT) == [*modules, "nvidia-settings"]
    assert leaving(observed, {**WANT, "precompiled": True}) == ["nvidia-settings"]


UBUNTU_UNIT = """[Unit]
Description=NVIDIA Persistence Daemon
Wants=syslog.target

[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose
ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced
"""


def test_the_persistence_daemon_keeps_something() -> None:
    started = exec_start(UBUNTU_UNIT)
    assert started == "/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose"
    assert with_persistence(started) == "/usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose"
    assert with_persistence("/usr/bin/nvidia-persistenced --verbose") is None
    assert with_persistence(exec_start("[Unit]\n")) is None
