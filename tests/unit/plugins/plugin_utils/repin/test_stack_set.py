# SPDX-License-Identifier: Apache-2.0
"""What apt moves of a stack."""

from __future__ import annotations

from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.stack_set import stack_set, verified_states

DESIRED: dict[str, Any] = {
    "preflight": {"gpus": {"count": 4}},
    "nvidia_driver": {
        "packages": {"nvidia-utils-580": "1", "linux-headers-6.8": None},
        "holds": {"nvidia-utils-580": True},
        "files": {"/etc/apt/x": {"content": "x"}},
    },
    "container_runtime": {"packages": {"docker.io": "3"}, "files": {"/etc/docker/key": {"secret": True}}},
    "cuda_toolkit": None,
    "host_tuning": {"files": {"/etc/sysctl.d/x": {"content": "y"}}},
}


def test_packages_holds_and_files_of_the_roles_that_install_are_one_set() -> None:
    assert stack_set(DESIRED) == {
        "packages": {"docker.io": "3", "linux-headers-6.8": None, "nvidia-utils-580": "1"},
        "holds": ["nvidia-utils-580"],
        "files": {"/etc/apt/x": {"content": "x"}},
        "pinned": ["docker.io", "nvidia-utils-580"],
    }


def test_what_is_only_held_is_not_moved() -> None:
    assert stack_set(DESIRED, ["nvidia_driver"])["packages"] == {"docker.io": "3"}


def test_packages_of_the_factory_only_have_to_be_there() -> None:
    factory = {"packages": {"docker-ce": None, "nvidia-container-toolkit": None}, "holds": {"docker-ce": True}}
    found = stack_set({**DESIRED, "container_runtime": factory}, ["nvidia_driver"])
    assert (found["packages"], found["pinned"]) == ({"docker-ce": None, "nvidia-container-toolkit": None}, [])
    named_twice = stack_set({"nvidia_driver": {"packages": {"a": "1"}}, "container_runtime": {"packages": {"a": None}}})
    assert named_twice["packages"] == {"a": "1"}


def test_a_moved_host_is_verified_by_the_states_of_its_bring_up() -> None:
    assert set(verified_states(DESIRED)) == {"preflight", "nvidia_driver", "container_runtime"}
    gpus = {"gpu_health": {"profile": "h100-sxm-4"}}
    assert verified_states({**DESIRED, "gpu_verify": gpus})["gpu_verify"] == gpus


def test_a_host_that_was_put_back_is_verified_by_its_journal_and_what_no_package_brings() -> None:
    assert verified_states({**DESIRED, "gpu_verify": {}}, back=True) == {"preflight": {"gpus": {"count": 4}}}
    runtime = {"packages": {"docker.io": "3"}, "cdi": {"/etc/cdi/nvidia.json": {}}}
    found = verified_states({**DESIRED, "container_runtime": runtime}, back=True)
    assert found["container_runtime"] == {"cdi": {"/etc/cdi/nvidia.json": {}}}
