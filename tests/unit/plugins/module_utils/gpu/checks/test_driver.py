# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.driver import check_driver
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import Reading

H200 = Expected("h200-sxm-1", 1, "NVIDIA H200", compute_capability="9.0")
PINNED = Expected("h200-sxm-1", 1, "NVIDIA H200", compute_capability="9.0", driver="590.48.01")
GB10 = Expected("gb10", 1, "NVIDIA GB10", compute_capability="12.1")


def module(version: str | None, **more: Any) -> Reading:
    return Reading(
        "proc-version", {"driver": version, "flavour": "open", "loaded": version is not None, **more}, (), "proc"
    )


def smi(tool: str | None, library: str | None, driver: str | None, **more: Any) -> Reading:
    return Reading("smi-version", {"tool": tool, "library": library, "driver": driver, **more}, (), "smi")


def verdicts(*readings: Reading, expected: Expected = H200) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in check_driver(readings, expected):
        found.setdefault(one["id"], []).append(one["verdict"])
    return found


def test_all_of_one_release() -> None:
    found = verdicts(module("590.48.01"), smi("590.48.01", "590.48", "590.48.01"), expected=PINNED)
    assert set(found) == {"driver.version", "driver.match", "driver.flavour"}
    assert {verdict for own in found.values() for verdict in own} == {"pass"}


@pytest.mark.parametrize("library", ["590.4", "580.95", "590.48.02"])
def test_a_library_of_another_release(library: str) -> None:
    assert verdicts(smi("590.48.01", library, "590.48.01"))["driver.match"] == ["fail"]


def test_two_sources_that_differ() -> None:
    found = check_driver([module("580.142"), smi("590.48.01", "590.48", "590.48.01")], H200)
    wrong = [one for one in found if one["verdict"] == "fail"]
    assert [one["id"] for one in wrong] == ["driver.match"]
    assert "module 580.142" in wrong[0]["observed"]
    assert "reboot" in wrong[0]["remedy"]


def test_the_message_about_a_mismatch() -> None:
    reading = smi(None, "590.48", None, trouble=["Failed to initialize NVML: Driver/library version mismatch"])
    found = check_driver([reading], H200)
    match = next(one for one in found if one["id"] == "driver.match")
    assert match["verdict"] == "fail"
    assert "590.48" in match["observed"]


def test_the_firmware_of_the_gpus_is_a_part_too() -> None:
    reading = Reading("smi-q", {"driver": "590.48.01", "gpus": [{"gsp_firmware_version": "580.142"}]})
    assert verdicts(reading)["driver.match"] == ["fail"]


def test_another_version_than_the_pin() -> None:
    found = check_driver([module("580.142")], PINNED)
    assert [(one["id"], one["verdict"]) for one in found] == [("driver.version", "fail"), ("driver.flavour", "pass")]
    assert (found[0]["expected"], found[0]["observed"]) == ("590.48.01", "580.142")


def test_without_a_pin_the_driver_must_know_the_gpu() -> None:
    assert verdicts(module("515.105.01"))["driver.version"] == ["fail"]
    assert verdicts(module("580.142"), expected=GB10)["driver.version"] == ["pass"]
    assert verdicts(module("570.1"), expected=GB10)["driver.version"] == ["fail"]


def test_the_proprietary_module_does_not_know_gb10() -> None:
    assert verdicts(module("580.142", flavour="proprietary"), expected=GB10)["driver.flavour"] == ["fail"]
    assert verdicts(module("580.142", flavour="proprietary"))["driver.flavour"] == ["pass"]


def test_no_module_and_no_version() -> None:
    assert verdicts(module(None, flavour=None))["driver.version"] == ["fail"]
    empty = check_driver([Reading("smi-version", {}, ('no version is in "x"',))], H200)
    assert [(one["id"], one["verdict"]) for one in empty] == [("driver.version", "could_not_check")]
    assert '"x"' in empty[0]["observed"]


def test_other_kinds_without_a_version_say_nothing() -> None:
    assert verdicts(Reading("query-gpu", {"gpus": [{"name": "NVIDIA H200"}], "driver": None})) == {}
