# SPDX-License-Identifier: Apache-2.0
"""The variables of the stack roles: driver, CUDA toolkit, container runtime and virtual environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.driver_rules import kernel_limit
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import load_tables, part, text

TOOLKIT_PACKAGE = "nvidia-container-toolkit"


def stack_variables(resolved: ResolvedIntent, given: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
    """Return the variables of the roles that install a stack; None if the stack has nothing for a role.

    `given` are the operator's own variables, which are merged later: a package set of theirs needs the role, too.
    """
    return {
        "nvidia_driver": _driver(resolved, given),
        "cuda_toolkit": _toolkit(resolved),
        "container_runtime": _runtime(resolved, given),
        "engine_venv": _venv(resolved, given),
    }


def _driver(resolved: ResolvedIntent, given: Mapping[str, Any]) -> dict[str, Any] | None:
    driver = part(resolved.stack, "driver")
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
        "nvidia_driver_source": dict(resolved.sources.get("nvidia_driver") or {}),
        "nvidia_driver_kernel_below": kernel_limit(
            text(given.get("nvidia_driver_version")) or text(driver.get("version")), load_tables()
        )
        or "",
    }


def _toolkit(resolved: ResolvedIntent) -> dict[str, Any] | None:
    cuda = part(resolved.stack, "cuda")
    if not cuda.get("packages"):
        return None
    return {
        "cuda_toolkit_version": text(cuda.get("toolkit")) or "",
        "cuda_toolkit_packages": dict(cuda["packages"]),
        "cuda_toolkit_source": dict(resolved.sources.get("cuda_toolkit") or {}),
    }


def _runtime(resolved: ResolvedIntent, given: Mapping[str, Any]) -> dict[str, Any] | None:
    packages = resolved.stack["packages"]
    if not packages and not given.get("container_runtime_packages"):
        return None
    daemon = resolved.stack.get("daemon")
    return {
        "container_runtime_packages": dict(packages),
        "container_runtime_sources": list(resolved.runtime_sources),
        "container_runtime_gpus": TOOLKIT_PACKAGE in packages,
        **({} if daemon is None else {"container_runtime_daemon": daemon}),
    }


def _venv(resolved: ResolvedIntent, given: Mapping[str, Any]) -> dict[str, Any] | None:
    if resolved.serving.runtime != "venv":
        return None
    venv = part(resolved.stack, "venv")
    python = text(resolved.stack.get("python"))
    lock = str(given.get("engine_venv_lock") or venv.get("lock") or "")
    return {
        "engine_venv_directory": venv.get("path") or "/opt/venvs/vllm",
        "engine_venv_lock": lock,
        "engine_venv_lock_text": resolved.files.get(lock, ""),
        "engine_venv_requires": {str(name): text(version) for name, version in part(venv, "requirements").items()},
        "engine_venv_compute_capability": text(resolved.hardware.get("compute_capability")) or "",
        **({"engine_venv_python": f"python{python}"} if python else {}),
    }
