# SPDX-License-Identifier: Apache-2.0
"""A machine in good health is right by its own profile, in every text that its tools print, and by no other profile."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.check import merged
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.diagnose import Capture, diagnose, status
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected, expected_of
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import CONTENT, FAIL, PASS

from firstlight_lab.captures import captures
from firstlight_lab.nvidia import known_profiles

HARDWARE = Path(__file__).parents[5] / "catalog" / "hardware"
DRIVERS = ("560.35.05", "580.126.09", "610.57.04")
# Tools that say nothing, or nothing that can be evaluated, about such a machine.
SILENT = {("h200-sxm-1", "nvlink"), ("h200-sxm-1", "nvlink-errors")}
# A service without its version, and a version without the service, prove little; see the test of all texts together.
PARTS = {"fabricmanager-version"}


@functools.cache
def hardware(profile: str) -> Expected:
    return expected_of(profile, yaml.safe_load((HARDWARE / f"{profile}.yml").read_text()))


def wrong(checks: list[dict[str, Any]]) -> list[str]:
    return [
        f"{one['id']}: {one['verdict']}, {one['observed']} ({one['source']})"
        for one in checks
        if one["verdict"] not in CONTENT
    ]


# No driver before branch 580 knows a GB10.
MACHINES = [
    (profile, driver) for profile in known_profiles() for driver in DRIVERS if (profile, driver) != ("gb10", DRIVERS[0])
]


@pytest.mark.parametrize(("profile", "driver"), MACHINES)
def test_all_texts_together_are_right(profile: str, driver: str) -> None:
    texts = [
        Capture(name, "gpu0", one.text, one.kind)
        for name, one in captures(profile, driver=driver).items()
        if (profile, name) not in SILENT
    ]
    checks = merged(diagnose(texts, hardware(profile))["checks"])
    assert wrong(checks) == []
    assert status(checks) == 0
    assert {one["id"] for one in checks if one["verdict"] == PASS} >= {"gpu.count", "gpu.name", "kernel.xid"}


SINGLE = [
    (profile, name)
    for profile in known_profiles()
    for name in captures(profile)
    if (profile, name) not in SILENT and name not in PARTS
]


@pytest.mark.parametrize(("profile", "name"), SINGLE)
def test_each_text_alone_is_right(profile: str, name: str) -> None:
    one = captures(profile)[name]
    for kind in (one.kind, None):
        checks = diagnose([Capture("capture.txt", "", one.text, kind)], hardware(profile))["checks"]
        assert [check["id"] for check in checks if check["verdict"] == FAIL] == []
        verdicts = {check["verdict"] for check in checks}
        assert verdicts == {"not_applicable"} or PASS in verdicts
        # Service, version and state of a fabric manager are believed together only: one text leaves them open.
        assert all(line.startswith("fabric_manager.") for line in wrong(checks))


# The GPUs of a partition are those of the board, and what tells the two apart is on the bus: test_partition.py.
ALIKE = {"h100-sxm-4-nvswitch", "h100-sxm-4-partition"}
OTHERS = [
    (one, other) for one in known_profiles() for other in known_profiles() if one != other and {one, other} != ALIKE
]


@pytest.mark.parametrize(("profile", "other"), OTHERS)
def test_another_profile_is_told_apart(profile: str, other: str) -> None:
    texts = [
        Capture(name, "gpu0", captures(profile)[name].text, captures(profile)[name].kind)
        for name in ("topo", "nvlink", "query-gpu")
    ]
    checks = diagnose(texts, hardware(other))["checks"]
    assert FAIL in {one["verdict"] for one in checks}
