# SPDX-License-Identifier: Apache-2.0
"""The rules between the parts of a stack, each broken once, and the stacks of the catalog, which break none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import BUILD_TOOLS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import available
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import (
    driver_version,
    engine_of,
    older,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.rules import (
    ERRORS,
    check_stack,
)
from hypothesis import given

ROOT = Path(__file__).resolve().parents[4]
CATALOG = load_catalog([ROOT / "catalog"])
STACKS, HARDWARE = CATALOG["stacks"], CATALOG["hardware"]
HGX = {"name": "h100-sxm-8", "nvswitch": True, "compute_capability": "9.0", "fp8": True}
GUEST = {**HGX, "name": "h100-sxm-4-partition", "fabric_manager": "host"}
PCIE = {"name": "h100-pcie", "nvswitch": False, "compute_capability": "9.0", "fp8": True}
GB10 = {"name": "gb10", "nvswitch": False, "compute_capability": "12.1", "fp8": True}
LAB = {"name": "lab", "packages": {}, "image": {}, "requires": {"vllm": "0.32.0", "ray": "2.60.0"}}


def refused(
    stack: Any, hardware: Any, profile: str = "vllm-single", hosts: int = 1, **more: Any
) -> list[dict[str, str]]:
    errors = PlanErrors()
    check_stack(stack, hardware, hosts=hosts, profile=profile, errors=errors, **more)
    assert all(error["id"] in ERRORS for error in errors.found)
    assert all(all(error.values()) for error in errors.found)
    return errors.found


def ids(*arguments: Any, **more: Any) -> list[str]:
    return [error["id"] for error in refused(*arguments, **more)]


def changed(name: str, part: str | None = None, **values: Any) -> dict[str, Any]:
    stack = dict(STACKS[name])
    return {**stack, part: {**stack[part], **values}} if part else {**stack, **values}


@pytest.mark.parametrize(
    ("stack", "hardware", "profile", "hosts"),
    [
        ("h100-vllm-0.32", "h100-sxm-8", "vllm-single", 1),
        ("h100-vllm-0.31", "h100-sxm-4-nvswitch", "vllm-single", 1),
        ("h100-vllm-0.31", "h100-sxm-4-partition", "vllm-single", 1),
        ("h100-vllm-0.31", "h100-pcie", "vllm-single", 1),
        ("h100-vllm-0.7.3-cu126", "h100-sxm-4-nvswitch", "vllm-single", 1),
        ("h100-vllm-0.7.3-cu126", "h100-sxm-4", "vllm-single", 1),
        ("h100-vllm-0.32-venv", "h100-sxm-8", "vllm-single", 1),
        ("spark-vllm-0.32-venv", "gb10", "vllm-single", 1),
        ("h200-vllm-0.32", "h200-sxm-8", "vllm-single", 1),
        ("h200-vllm-0.32", "h200-sxm-1", "vllm-single", 1),
        ("h100-sglang-0.5.23", "h100-sxm-8", "sglang", 2),
        ("h100-trtllm-1.2", "h100-sxm-8", "tensorrt-llm", 2),
        ("spark-vllm-0.32", "gb10", "vllm-ray", 4),
        ("spark-vllm-0.32-multinode", "gb10", "vllm-multinode", 4),
        ("spark-vllm-0.31-multinode", "gb10", "vllm-multinode", 4),
    ],
)
def test_stacks_of_the_catalog_pass_where_they_belong(stack: str, hardware: str, profile: str, hosts: int) -> None:
    assert refused(STACKS[stack], HARDWARE[hardware], profile, hosts, fp8=True) == []


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_of_the_catalog_is_whole(name: str) -> None:
    stack = STACKS[name]
    engine, version = engine_of(stack)
    assert stack["requires"][engine] == version
    assert (stack["image"] is None) == (stack["runtime"] == "venv") == ("venv" in stack)
    manager, exact = stack["driver"]["fabric_manager"], stack["driver"]["version"]
    assert manager is None or manager["version"] == exact
    own = {package: pin for package, pin in stack["driver"]["packages"].items() if package not in BUILD_TOOLS}
    assert all(exact in revision for revision in own.values() if revision)


def test_a_stack_that_says_little_passes() -> None:
    assert refused(LAB, GB10, "vllm-ray", 4) == []
    assert refused(LAB, HGX, "vllm-single") == []


@pytest.mark.parametrize(
    ("stack", "hardware", "profile", "hosts", "expected"),
    [
        (changed("h100-vllm-0.32", "driver", fabric_manager=None), HGX, "vllm-single", 1, ["stack.fabric-manager"]),
        (
            changed("h100-vllm-0.32", "driver", fabric_manager={"package": "x", "version": "580.95.05"}),
            HGX,
            "vllm-single",
            1,
            ["stack.fabric-manager"],
        ),
        (changed("h100-vllm-0.32", "driver", fabric_manager=None), PCIE, "vllm-single", 1, []),
        (changed("h100-vllm-0.32", "driver", fabric_manager=None), GUEST, "vllm-single", 1, []),
        (
            changed("h100-vllm-0.32", "driver", fabric_manager={"package": "x", "version": "580.95.05"}),
            GUEST,
            "vllm-single",
            1,
            ["stack.fabric-manager"],
        ),
        (
            changed(
                "h100-vllm-0.32",
                "driver",
                version="570.86.10",
                branch="570",
                fabric_manager={"package": "x", "version": "570.86.10"},
            ),
            HGX,
            "vllm-single",
            1,
            ["stack.cuda-driver"],
        ),
        (changed("spark-vllm-0.32", "driver", branch="570"), GB10, "vllm-ray", 4, ["stack.cuda-driver"]),
        (changed("spark-vllm-0.32", "cuda", in_image="12.8"), GB10, "vllm-ray", 4, ["stack.gpu"]),
        (changed("spark-vllm-0.32", "driver", flavour="proprietary"), GB10, "vllm-ray", 4, ["stack.kernel-modules"]),
        (changed("spark-vllm-0.32", nccl="2.28.9"), GB10, "vllm-ray", 4, ["stack.nccl"]),
        (changed("spark-vllm-0.32", nccl="2.28.9"), GB10, "vllm-ray", 1, []),
        (STACKS["spark-vllm-0.32-multinode"], GB10, "vllm-ray", 4, ["stack.ray-missing"]),
        (changed("spark-vllm-0.32", "ray", added=False), GB10, "vllm-ray", 4, ["stack.ray-missing"]),
        ({**LAB, "requires": {"vllm": "0.17.1", "ray": "2.48.0"}}, GB10, "vllm-ray", 4, ["stack.ray-old"]),
        ({**LAB, "requires": {"vllm": "0.32.0", "ray": "2.53.0"}}, GB10, "vllm-ray", 4, ["stack.ray-old"]),
        ({**LAB, "requires": {"vllm": "0.32.0", "ray": "2.54"}}, GB10, "vllm-ray", 4, []),
        (STACKS["spark-vllm-0.32"], GB10, "ray-serve", 4, []),
        (changed("spark-vllm-0.32", "ray", serve={}), GB10, "vllm-ray", 4, []),
        (STACKS["h100-sglang-0.5.23"], HGX, "vllm-single", 1, ["stack.engine"]),
        (STACKS["h100-vllm-0.7.3-cu126"], HGX, "vllm-multinode", 1, ["stack.runtime"]),
        (changed("h100-vllm-0.32", python="3.11"), HGX, "vllm-single", 1, ["stack.inconsistent"]),
        (changed("h100-vllm-0.32", "driver", branch="570"), HGX, "vllm-single", 1, ["stack.inconsistent"]),
    ],
)
def test_each_rule(stack: Any, hardware: Any, profile: str, hosts: int, expected: list[str]) -> None:
    assert ids(stack, hardware, profile, hosts) == expected


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        ({"core": "1:4.6.1-1", "cuda13": "1:4.6.1-1"}, []),
        ({"core": "1:4.6.1-1", "proprietary-cuda13": "1:4.6.1-1"}, []),
        ({"core": "1:4.6.1-1"}, ["stack.dcgm"]),
        ({"core": "1:4.6.1-1", "cuda13": "1:4.5.2-1"}, ["stack.dcgm"]),
    ],
)
def test_dcgm_comes_whole_and_in_one_version(packages: dict[str, str], expected: list[str]) -> None:
    dcgm = {f"datacenter-gpu-manager-4-{name}": version for name, version in packages.items()}
    assert ids(changed("h100-vllm-0.32", "packages", **dcgm), HARDWARE["h100-sxm-8"]) == expected


def test_fp8_weights_need_fp8() -> None:
    old = {**PCIE, "name": "a100", "compute_capability": "8.0", "fp8": False}
    assert ids(STACKS["h100-vllm-0.32"], old, fp8=True) == ["stack.fp8"]
    assert ids(STACKS["h100-vllm-0.32"], old) == []


def test_eager_execution_needs_no_new_nccl() -> None:
    assert ids(changed("spark-vllm-0.32", nccl="2.28.9"), GB10, "vllm-ray", 4, cuda_graphs=False) == []


def test_everything_wrong_is_told_at_once() -> None:
    assert ids(STACKS["h100-vllm-0.7.3-cu126"], GB10, "vllm-ray", 4) == [
        "stack.gpu",
        "stack.kernel-modules",
        "stack.runtime",
        "stack.ray-old",
    ]


def test_a_refusal_names_the_numbers() -> None:
    old = changed("spark-vllm-0.32", "driver", branch="570")
    assert (
        refused(old, GB10, "vllm-ray", 4)[0]["rule"] == "CUDA 13 needs driver 580 or newer (13.0 came with 580.95.05)"
    )
    stack = changed("h100-vllm-0.32", "driver", fabric_manager={"package": "x", "version": "580.95.05"})
    assert refused(stack, HGX)[0]["remedy"] == "set driver.fabric_manager.version to 580.173.02"


def test_a_driver_is_as_exact_as_the_stack_knows_it() -> None:
    assert driver_version(LAB) is None
    assert driver_version(STACKS["spark-vllm-0.32"]) == "580"


def test_versions_are_numbers() -> None:
    assert older("2.9", "2.54")
    assert not older("2.54.0", "2.54")
    assert not older(None, "2.54")
    assert not older("main", "2.54")


ANYTHING: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(sorted(STACKS["h100-vllm-0.32"])), ANYTHING, max_size=5),
    st.dictionaries(st.sampled_from(sorted(HGX)), ANYTHING, max_size=3),
    st.sampled_from(["vllm-ray", "vllm-single", "sglang", "nothing"]),
    st.integers(1, 8),
)
def test_no_stack_makes_the_rules_fail(stack: Any, hardware: Any, profile: str, hosts: int) -> None:
    refused({**STACKS["h100-vllm-0.32"], **stack}, {**HGX, **hardware}, profile, hosts)


@pytest.mark.parametrize("name", STACKS)
def test_the_flags_of_a_pinned_engine_are_known(name: str) -> None:
    engine, version = engine_of(STACKS[name])
    assert f"{engine}=={version}" in available([ROOT / "catalog" / "engines"])
