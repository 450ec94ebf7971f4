# SPDX-License-Identifier: Apache-2.0
"""The part of a stack that apt moves: the packages, holds and files of every role that installs some of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SET_ROLES = ("nvidia_driver", "cuda_toolkit", "container_runtime")
"""Roles whose packages belong together: they are moved, and put back, in one transaction."""

States = Mapping[str, Any]


def stack_set(desired: Mapping[str, States | None], keep: Iterable[str] = ()) -> dict[str, Any]:
    """One set out of the desired states of these roles.

    A package without a version is not the set's to move. `keep` names roles that are verified and held as they are.
    """
    kept = set(keep)
    packages: dict[str, str] = {}
    holds: set[str] = set()
    files: dict[str, Any] = {}
    for role in SET_ROLES:
        state = desired.get(role) or {}
        if role in kept:
            continue
        packages |= {name: str(version) for name, version in (state.get("packages") or {}).items() if version}
        holds |= {name for name, held in (state.get("holds") or {}).items() if held}
        files |= {path: file for path, file in (state.get("files") or {}).items() if "content" in file}
    return {
        "packages": dict(sorted(packages.items())),
        "holds": sorted(holds),
        "files": dict(sorted(files.items())),
    }


def verified_states(desired: Mapping[str, States | None], only: str | None = None) -> dict[str, States]:
    """The states a moved host is verified by: the same as after a bring-up, and the GPUs that preflight counts."""
    roles = ("preflight", *SET_ROLES) if only is None else (only,)
    return {role: desired[role] or {} for role in roles if desired.get(role)}
