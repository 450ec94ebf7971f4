# SPDX-License-Identifier: Apache-2.0
"""The part of a stack that apt moves: the packages, holds and files of every role that installs some of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.driver import driver

SET_ROLES = ("nvidia_driver", "cuda_toolkit", "container_runtime")
"""Roles whose packages belong together: they are moved, and put back, in one transaction."""

States = Mapping[str, Any]


def stack_set(desired: Mapping[str, States | None], keep: Iterable[str] = ()) -> dict[str, Any]:
    """One set out of the desired states of these roles.

    A package without a version has to be there, in any: one that is missing comes, one that is there is not moved.
    `pinned` names those with one, which go with their set. `keep` names roles that are verified and held as they are.
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
            # Two roles may name one package: the one that knows its version is right.
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
    """What goes with the present set: its pins and, where the driver moves, what belongs to that driver unnamed.

    `present` is the present set, and `wanted` the driver's new state, empty where the driver stays as it is.
    """
    found = set(present["pinned"])
    if wanted:
        found |= set(driver.leaving(observation.get("driver") or {}, wanted.get("driver") or {}))
    return sorted(found)


def verified_states(desired: Mapping[str, States | None], *, back: bool = False) -> dict[str, States]:
    """The states a moved host is verified by: the same as after a bring-up, and the GPUs by their profile.

    A host that was put back is compared with what its journal recorded; only what no package brings is in the plan.
    """
    roles = ("preflight", *SET_ROLES, "gpu_verify")
    states: dict[str, States] = {role: desired[role] or {} for role in roles if desired.get(role)}
    if not back:
        return states
    runtime = states.get("container_runtime", {})
    kept: dict[str, States] = {"preflight": states.get("preflight", {})}
    return {**kept, "container_runtime": {"cdi": runtime["cdi"]}} if "cdi" in runtime else kept
