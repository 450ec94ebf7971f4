# SPDX-License-Identifier: Apache-2.0
"""The rules of a driver's set of packages, each broken once, and the sets of the catalog, which break none."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.driver_rules import (
    check_driver_set,
    driver_set,
    guest_notes,
    kernel_limit,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import load_tables

ROOT = Path(__file__).resolve().parents[4]
CATALOG = load_catalog([ROOT / "catalog"])
HGX = CATALOG["hardware"]["h100-sxm-8"]
GB10 = CATALOG["hardware"]["gb10"]


def refused(stack: Any, hardware: Any = HGX, **more: Any) -> list[dict[str, str]]:
    errors = PlanErrors()
    check_driver_set(stack, hardware, CATALOG["sources"], errors, **more)
    assert all(all(error.values()) for error in errors.found)
    return errors.found


def ids(*arguments: Any, **more: Any) -> list[str]:
    return [error["id"] for error in refused(*arguments, **more)]


def changed(stack: str = "h100-vllm-0.32", packages: dict[str, Any] | None = None, **driver: Any) -> dict[str, Any]:
    made = copy.deepcopy(CATALOG["stacks"][stack])
    made["driver"] |= driver
    made["driver"]["packages"] |= packages or {}
    return made


@pytest.mark.parametrize("name", CATALOG["stacks"])
def test_the_sets_of_the_catalog_break_no_rule(name: str) -> None:
    stack = CATALOG["stacks"][name]
    for hardware in stack["hardware"]:
        assert refused(stack, CATALOG["hardware"][hardware]) == []


@pytest.mark.parametrize(
    "name", [name for name, stack in CATALOG["stacks"].items() if stack["driver"]["policy"] == "install"]
)
def test_an_installed_set_has_libraries_firmware_and_module(name: str) -> None:
    packages = driver_set(CATALOG["stacks"][name]["driver"])
    assert all(packages.values())
    for part in ("nvidia-dkms", "nvidia-firmware", "libnvidia-compute", "libnvidia-gpucomp", "nvidia-fabricmanager"):
        assert any(package.startswith(part) for package in packages), part


def test_another_driver_in_a_guest_is_noted() -> None:
    stack, guest = CATALOG["stacks"]["h100-vllm-0.32"], CATALOG["hardware"]["h100-sxm-4-partition"]
    (note,) = guest_notes(stack, guest)
    assert "installs driver 580.173.02" in note
    assert "ask the owner first" in note
    assert guest_notes(stack, HGX) == guest_notes(stack, guest, install=False) == []
    held = changed(policy="verify-and-hold")
    assert guest_notes(held, guest) == guest_notes(changed(packages=None) | {"driver": {}}, guest) == []
    assert len(guest_notes(held, guest, install=True)) == 1


def test_a_policy_nobody_knows() -> None:
    assert ids(changed(policy="latest")) == ["stack.driver-policy"]


@pytest.mark.parametrize(
    ("packages", "words"),
    [
        ({"nvidia-utils-580": "580.95.05-1ubuntu1"}, "580.173.02"),
        ({"nvidia-utils-590": "580.173.02-1ubuntu1"}, "branch, which is 580"),
        ({"nvidia-firmware-580-580.95.05": "580.173.02-1ubuntu1"}, "version, which is 580.173.02"),
    ],
)
def test_a_package_of_another_release(packages: dict[str, str], words: str) -> None:
    found = refused(changed(packages=packages))
    assert [one["id"] for one in found] == ["stack.driver-packages"]
    assert words in found[0]["rule"]


def test_from_590_on_names_of_nvidias_own_repository_carry_no_branch() -> None:
    new: dict[str, Any] = {"version": "590.48.01", "branch": "590", "fabric_manager": None, "source": "cuda-repository"}
    stack = changed(**new)
    stack["driver"]["packages"] = {"nvidia-driver-590-open": "590.48.01-1ubuntu1"}
    assert "from branch 590 on" in refused(stack)[0]["rule"]
    stack["driver"]["packages"] = {
        "nvidia-open": "590.48.01-1ubuntu1",
        "nvidia-dkms-open": "590.48.01-1ubuntu1",
        "dkms": "1:3.2.1-1ubuntu2",
    }
    assert refused(stack) == []
    stack["driver"] |= {
        "source": "ubuntu-archive",
        "packages": {"nvidia-driver-590-open": "590.48.01-0ubuntu0.24.04.1"},
    }
    assert refused(stack) == []


@pytest.mark.parametrize(
    ("changes", "hardware", "words"),
    [
        ({"packages": {"nvidia-dkms-580": "580.173.02-1ubuntu1"}}, HGX, "driver.flavour is open"),
        ({"packages": {"nvidia-dkms-580": None}, "flavour": None, "policy": None}, GB10, "open kernel modules only"),
        ({"flavour": "proprietary"}, HGX, "match driver.flavour"),
    ],
)
def test_modules_of_the_other_kind(changes: dict[str, Any], hardware: Any, words: str) -> None:
    found = refused(changed(**changes), hardware)
    assert [one["id"] for one in found] == ["stack.kernel-modules"]
    assert words in found[0]["rule"]


def test_a_set_of_two_sources() -> None:
    mixed = changed(packages={"nvidia-utils-580": "580.173.02-0ubuntu0.24.04.1"})
    found = refused(mixed)
    assert [one["id"] for one in found] == ["stack.mixed-sources"]
    assert "ubuntu-archive" in found[0]["found"]
    mixed["driver"]["source"] = "site-mirror"  # of which nothing is known
    assert ids(mixed) == ["stack.mixed-sources"]
    manager = {
        "package": "nvidia-fabricmanager-580",
        "version": "580.173.02",
        "revision": "580.173.02-0ubuntu0.24.04.1",
    }
    assert ids(changed(fabric_manager=manager)) == ["stack.mixed-sources"]


def test_what_is_installed_is_pinned() -> None:
    loose = changed(packages={"nvidia-utils-580": None})
    assert ids(loose) == ["stack.driver-unpinned"]
    assert ids(loose, install=False) == []
    spark = CATALOG["stacks"]["spark-vllm-0.32"]
    assert ids(spark, GB10) == []
    assert ids(spark, GB10, install=True) == ["stack.driver-unpinned"]


def test_a_stack_without_a_driver() -> None:
    assert refused({"name": "lab", "packages": {}}) == []


def without_dkms(**driver: Any) -> dict[str, Any]:
    stack = changed(**driver)
    del stack["driver"]["packages"]["dkms"]
    return stack


def test_a_driver_of_nvidias_needs_a_newer_dkms_than_ubuntu_has() -> None:
    (found,) = refused(without_dkms())
    assert found["id"] == "stack.dkms"
    assert "no dkms for ubuntu 24.04, which has 3.0.11" in found["found"]
    assert "need dkms 3.1.8 or newer" in found["rule"]
    (found,) = refused(changed(packages={"dkms": "3.0.11-1ubuntu13"}))
    assert (found["id"], "dkms 3.0.11-1ubuntu13" in found["found"]) == ("stack.dkms", True)


def test_where_no_newer_dkms_is_needed_none_is_asked_for() -> None:
    newer = without_dkms()
    newer["distributions"] = [{"distribution": "debian", "version": "13"}]
    assert refused(newer) == []
    assert refused(without_dkms(), install=False) == [], "nothing is built where nothing is installed"
    unknown = without_dkms()
    unknown["distributions"] = [{"distribution": "ubuntu", "version": "99.04"}]
    assert ["an unknown one" in one["found"] for one in refused(unknown)] == [True]


@pytest.mark.parametrize(
    ("release", "limit"),
    [
        ("580.126.20", "7.0"),
        ("580.142", "7.1"),
        ("580.159.03", "7.1"),
        ("580.159.04", None),
        ("580.173.02", None),
        ("590.48.01", "7.0"),
        ("570.148.08", None),
        (None, None),
    ],
)
def test_the_oldest_kernel_that_a_driver_does_not_build_on(release: str | None, limit: str | None) -> None:
    assert kernel_limit(release, load_tables()) == limit


UBUNTU = "580.173.02-0ubuntu0.24.04.1"
PRECOMPILED = {
    "nvidia-headless-no-dkms-580-open": UBUNTU,
    "nvidia-kernel-common-580": UBUNTU,
    "nvidia-utils-580": UBUNTU,
    "libnvidia-compute-580": UBUNTU,
    "linux-modules-nvidia-580-open-6.14.0-36-generic": "6.14.0-36.36~24.04.1+1",
}


def signed(packages: dict[str, Any] | None = None, **driver: Any) -> dict[str, Any]:
    made = changed(**{"source": "ubuntu-archive", "version": "580.173.02", "fabric_manager": None, **driver})
    made["driver"]["packages"] = {**PRECOMPILED, **(packages or {})}
    return made


def test_precompiled_modules_come_with_ubuntus_own_user_space() -> None:
    assert refused(signed()) == []
    (found,) = refused(signed({"nvidia-dkms-580-open": UBUNTU}))
    assert found["id"] == "stack.precompiled"
    assert "nvidia-dkms-580-open" in found["found"]
    assert "stack.precompiled" in ids(signed(source="cuda-repository"))
    wrong = {"linux-modules-nvidia-570-open-6.14.0-36-generic": "6.14.0-36.36~24.04.1+1"}
    assert ids(signed(wrong)) == ["stack.driver-packages"]


def test_precompiled_modules_are_of_the_flavour() -> None:
    closed = {"linux-modules-nvidia-580-6.14.0-36-generic": "6.14.0-36.36~24.04.1+1"}
    assert ids(signed(closed)) == ["stack.kernel-modules"]


def test_a_driver_that_needs_a_newer_dkms_names_it() -> None:
    without = changed()
    del without["driver"]["packages"]["dkms"]
    (found,) = refused(without)
    assert found["id"] == "stack.dkms"
    assert "no dkms for ubuntu 24.04, which has 3.0.11" in found["found"]
    assert ids(changed(packages={"dkms": "1:3.0.11-1ubuntu13"})) == ["stack.dkms"]


def test_what_reads_the_switches_is_of_the_drivers_version() -> None:
    version = CATALOG["stacks"]["h100-vllm-0.32"]["driver"]["version"]
    assert refused(changed(nvswitch={"libnvidia-nscq": f"{version}-1"})) == []
    assert ids(changed(nvswitch={"libnvidia-nscq": "580.105.08-1"})) == ["stack.driver-packages"]
