# SPDX-License-Identifier: Apache-2.0
"""What cuda_toolkit makes of its variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import DRIVERS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.cuda_toolkit import desired

from tests.unit.ideal import ideal

ROOT = Path(__file__).parents[6]
PACKAGES = {
    "cuda-toolkit-13-0": "13.0.3-1",
    "cuda-compiler-13-0": "13.0.3-1",
    "cuda-nvcc-13-0": "13.0.97-1",
    "cuda-cudart-13-0": "13.0.97-1",
}


def variables(**changes: Any) -> dict[str, Any]:
    return {
        "cuda_toolkit_packages": PACKAGES,
        "cuda_toolkit_version": "13.0.3",
        "cuda_toolkit_source": {},
        **{f"cuda_toolkit_{name}": value for name, value in changes.items()},
    }


def test_state() -> None:
    state = desired(variables())
    assert state["packages"] == PACKAGES
    assert state["holds"] == dict.fromkeys(sorted(PACKAGES), True)
    assert list(state["files"]) == [
        "/etc/apt/apt.conf.d/52firstlight-cuda",
        "/etc/apt/preferences.d/00-firstlight-cuda",
    ]
    assert state["cuda"] == {"13.0": {"version": "13.0.3", "compiler": "13.0.97"}}
    assert differences(state, ideal(state)) == []


def test_no_toolkit_is_no_state() -> None:
    assert desired(variables(packages={}, version="")) == {}


def test_a_set_to_run_things_has_no_compiler_to_ask() -> None:
    assert "cuda" not in desired(variables(packages={"cuda-cudart-13-0": "13.0.97-1"}, version=""))


@pytest.mark.parametrize(
    ("packages", "version", "expected"),
    [
        ({"cuda-toolkit-12-6": "12.6.3-1"}, "", {"12.6": {"version": "12.6.3", "compiler": None}}),
        ({"cuda-nvcc-12-6": "12.6.85-1"}, "12.6.3", {"12.6": {"version": "12.6.3", "compiler": "12.6.85"}}),
        ({"cuda-compiler-12-6": "12.6.3-1"}, "12.6", {"12.6": {"version": None, "compiler": None}}),
    ],
)
def test_what_is_known_of_the_compiler(packages: dict[str, str], version: str, expected: dict[str, Any]) -> None:
    assert desired(variables(packages=packages, version=version))["cuda"] == expected


@pytest.mark.parametrize(
    "driver",
    ["cuda", "cuda-13-0", "cuda-drivers", "cuda-drivers-580", "cuda-runtime-13-0", "nvidia-driver-580-open",
     "nvidia-open", "nvidia-open-580", "libnvidia-compute-580", "nvidia-fabricmanager"],
)  # fmt: skip
def test_a_driver_in_the_set_is_refused(driver: str) -> None:
    with pytest.raises(ValueError, match=f"contains {driver}, expected a toolkit without a driver.*role nvidia_driver"):
        desired(variables(packages={**PACKAGES, driver: "1"}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"packages": {}}, "cuda_toolkit_version is 13.0.3, but cuda_toolkit_packages is empty"),
        ({"packages": {**PACKAGES, "cuda-nvcc-13-0": None}}, "no version for cuda-nvcc-13-0, expected exact ones"),
        ({"packages": {**PACKAGES, "cuda-nvcc-12-6": "1"}}, "of the releases 12.6, 13.0, expected one release"),
        ({"packages": {"gcc": "12"}}, "whose names give no release"),
        ({"version": "12.6.3"}, "cuda_toolkit_version is 12.6.3, but the packages are of release 13.0"),
        ({"version": "13.0.2"}, "13.0.2, but cuda-toolkit-13-0 is pinned to 13.0.3-1"),
        ({"version": "thirteen"}, "expected numbers as in 13.0.3"),
        ({"source": {"uris": ["http://x"]}}, "cuda_toolkit_source has no suites"),
    ],
)
def test_errors(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        desired(variables(**changes))


@pytest.mark.parametrize("name", [*DRIVERS, *(f"{name}-580" for name in DRIVERS)])
def test_no_driver_may_be_in_the_set(name: str) -> None:
    with pytest.raises(ValueError, match=f"contains {name}, expected a toolkit without a driver"):
        desired(variables(packages={**PACKAGES, name: "1"}))


def test_what_must_not_be_in_the_set_must_not_come_along_either() -> None:
    (task,) = yaml.safe_load((ROOT / "roles/cuda_toolkit/tasks/install.yml").read_text(encoding="utf-8"))
    assert task["firstlight.cluster.apt_set"]["drivers"] is False
