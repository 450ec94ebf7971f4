# SPDX-License-Identifier: Apache-2.0
"""What a stack release says of driver, CUDA toolkit, container runtime and virtual environment, for the roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.choices import Settled
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.driver_rules import kernel_limit
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import load_tables, part, text

TOOLKIT_PACKAGE = "nvidia-container-toolkit"


def stack_variables(choices: Settled, given: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
    """The variables of the roles that install a stack; None where the stack has nothing for one.

    `given` are the operator's own, which are merged later: a set of the operator's own needs the role, too.
    """
    return {
        "nvidia_driver": _driver(choices, given),
        "cuda_toolkit": _toolkit(choices),
        "container_runtime": _runtime(choices, given),
        "engine_venv": _venv(choices, given),
    }


def _driver(choices: Settled, given: Mapping[str, Any]) -> dict[str, Any] | None:
    driver = part(choices.stack, "driver")
    if not driver.get("packages") and not given.get("nvidia_driver_packages"):
        return None
    manager = part(driver, "fabric_manager")
    return {
        "nvidia_driver_policy": text(driver.get("policy")) or "verify-and-hold",
        "nvidia_driver_version": text(driver.get("version")) or "",
        "nvidia_driver_branch": text(driver.get("branch")) or "",
        "nvidia_driver_flavour": text(driver.get("flavour")) or "",
        "nvidia_driver_packages": dict(driver.get("packages") or {}),
        "nvidia_driver_fabric_manager": {
            **({manager["package"]: text(manager.get("revision"))} if manager else {}),
            **{str(name): text(version) for name, version in part(driver, "nvswitch").items()},
        },
        "nvidia_driver_source": dict(choices.sources.get("nvidia_driver") or {}),
        "nvidia_driver_kernel_below": kernel_limit(
            text(given.get("nvidia_driver_version")) or text(driver.get("version")), load_tables()
        )
        or "",
    }


def _toolkit(choices: Settled) -> dict[str, Any] | None:
    cuda = part(choices.stack, "cuda")
    if not cuda.get("packages"):
        return None
    return {
        "cuda_toolkit_version": text(cuda.get("toolkit")) or "",
        "cuda_toolkit_packages": dict(cuda["packages"]),
        "cuda_toolkit_source": dict(choices.sources.get("cuda_toolkit") or {}),
    }


def _runtime(choices: Settled, given: Mapping[str, Any]) -> dict[str, Any] | None:
    packages = choices.stack["packages"]
    if not packages and not given.get("container_runtime_packages"):
        return None
    daemon = choices.stack.get("daemon")
    return {
        "container_runtime_packages": dict(packages),
        "container_runtime_sources": list(choices.runtime_sources),
        "container_runtime_gpus": TOOLKIT_PACKAGE in packages,
        **({} if daemon is None else {"container_runtime_daemon": daemon}),
    }


def _venv(choices: Settled, given: Mapping[str, Any]) -> dict[str, Any] | None:
    if choices.serving.runtime != "venv":
        return None
    venv = part(choices.stack, "venv")
    python = text(choices.stack.get("python"))
    lock = str(given.get("engine_venv_lock") or venv.get("lock") or "")
    return {
        "engine_venv_directory": venv.get("path") or "/opt/venvs/vllm",
        "engine_venv_lock": lock,
        "engine_venv_lock_text": choices.files.get(lock, ""),
        "engine_venv_requires": {str(name): text(version) for name, version in part(venv, "requirements").items()},
        "engine_venv_compute_capability": text(choices.hardware.get("compute_capability")) or "",
        **({"engine_venv_python": f"python{python}"} if python else {}),
    }
