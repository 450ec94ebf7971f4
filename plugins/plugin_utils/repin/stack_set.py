# SPDX-License-Identifier: Apache-2.0
"""The part of a stack that apt changes: packages, holds and files of all roles that install any of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.driver import driver

SET_ROLES = ("nvidia_driver", "cuda_toolkit", "container_runtime")
"""Roles whose packages are moved and rolled back together, in one transaction."""

States = Mapping[str, Any]


def stack_set(desired: Mapping[str, States | None], keep: Iterable[str] = ()) -> dict[str, Any]:
    """Combine the desired states of these roles into one set.

    A package without a version must be present in any version: it is installed if missing, else left as it is.
    `pinned` names packages with a version, which leave with their set. `keep` names roles that are only verified and
    held.
    """
    kept = set(keep)
    packages: dict[str, str | None] = {}
    holds: set[str] = set()
    files: dict[str, Any] = {}
    for role in SET_ROLES:
        state = desired.get(role) or {}
        if role in kept:
            continue
        for name, version in (state.get("packages") or {}).items():
            # If two roles name a package, the one with a version takes precedence.
            packages[name] = str(version) if version else packages.get(name)
        holds |= {name for name, held in (state.get("holds") or {}).items() if held}
        files |= {path: file for path, file in (state.get("files") or {}).items() if "content" in file}
    return {
        "packages": dict(sorted(packages.items())),
        "holds": sorted(holds),
        "files": dict(sorted(files.items())),
        "pinned": sorted(name for name, version in packages.items() if version),
    }


def leaving(present: Mapping[str, Any], observation: Mapping[str, Any], wanted: States) -> list[str]:
    """Return the packages that leave with the present set: its pins and, if the driver moves, the driver's others.

    `present` is the present set, and `wanted` the driver's new state, empty if the driver stays.
    """
    found = set(present["pinned"])
    if wanted:
        found |= set(driver.leaving(observation.get("driver") or {}, wanted.get("driver") or {}))
    return sorted(found)


def verified_states(desired: Mapping[str, States | None], *, back: bool = False) -> dict[str, States]:
    """Return the states by which a moved host is verified: as after a bring-up, with the GPUs by their profile.

    A host that was rolled back is compared with its journal; the plan adds only what no package provides.
    """
    roles = ("preflight", *SET_ROLES, "gpu_verify")
    states: dict[str, States] = {role: desired[role] or {} for role in roles if desired.get(role)}
    if not back:
        return states
    runtime = states.get("container_runtime", {})
    kept: dict[str, States] = {"preflight": states.get("preflight", {})}
    return {**kept, "container_runtime": {"cdi": runtime["cdi"]}} if "cdi" in runtime else kept
