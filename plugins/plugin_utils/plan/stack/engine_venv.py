# SPDX-License-Identifier: Apache-2.0
"""The engine in a virtual environment that is exactly its lock, and the package that Python makes one with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import check_requires, parse_lock
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.venv import (
    capability,
    check_directory,
    check_index,
)

DEFAULTS: dict[str, Any] = {
    "engine_venv_directory": "/opt/venvs/vllm",
    "engine_venv_python": "python3.12",
    "engine_venv_index": "",
    "engine_venv_requires": {},
    "engine_venv_compute_capability": "",
}
"""What the role's defaults say too, for a plan that leaves them out."""

COMPILER = "build-essential"

_OF_THE_DISTRIBUTION = re.compile(r"python3(\.\d+)?")


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The environment and, where Python is the distribution's, its package; refused what no host is needed for.

    The lock's text is in `engine_venv_lock_text`; `engine_venv_lock` is only its name, for messages.
    """
    settings = {**DEFAULTS, **variables}
    name = str(settings.get("engine_venv_lock") or "the lock")
    text = settings.get("engine_venv_lock_text")
    if not text:
        raise ValueError(
            f"engine_venv_lock is {settings.get('engine_venv_lock')!r}, which is not a lock, expected the path of a "
            "file with every wheel of the engine pinned by hash: use one of catalog/locks, or create one (docs/venv.md)"
        )
    directory = check_directory(str(settings["engine_venv_directory"]))
    check_index(str(settings["engine_venv_index"]))
    if settings["engine_venv_compute_capability"]:
        capability(str(settings["engine_venv_compute_capability"]))
    python = str(settings["engine_venv_python"])
    if not python.startswith("/") and not _OF_THE_DISTRIBUTION.fullmatch(python):
        raise ValueError(
            f"engine_venv_python is {python!r}, expected the distribution's Python such as python3.12, or a path"
        )
    lock = parse_lock(str(text), name)
    check_requires(lock, settings["engine_venv_requires"] or {}, name)
    if lock.python and _OF_THE_DISTRIBUTION.fullmatch(python) and python not in ("python3", f"python{lock.python}"):
        raise ValueError(
            f"engine_venv_python is {python}, {name} is for Python {lock.python}: set it to python{lock.python}, or "
            "use the lock for the other Python"
        )
    # Triton compiles launchers against Python.h when the engine starts; without them it ends at the first request.
    packages: dict[str, str | None] = {COMPILER: None}
    if not python.startswith("/"):
        packages |= {f"{python}-venv": None, f"{python}-dev": None}
    return {
        "venvs": {directory: {"lock": lock.digest}},
        "packages": dict(sorted(packages.items())),
    }
