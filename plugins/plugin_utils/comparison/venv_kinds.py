# SPDX-License-Identifier: Apache-2.0
"""The kind of state `venvs`: whether a virtual environment is the one of its lock, unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import (
    UNKNOWN,
    Difference,
    State,
    difference,
    register,
    sentence_of_fields,
    value_words,
)


def _venvs(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """One difference an environment: it is missing, or of another lock, or packages or files in it were changed."""
    found = []
    for directory, want in desired.items():
        have = observed.get(directory)
        if have is None or not have.get("exists"):
            exists = UNKNOWN if have is None else False
            found.append(difference("venv", directory, {"exists": True}, {"exists": exists}))
            continue
        expected: State = {}
        seen: State = {}
        if have.get("lock") != want["lock"]:
            expected["lock"], seen["lock"] = want["lock"], have.get("lock") or "none, it was never finished"
        else:
            packages = have.get("differing") or {}
            expected = {name: item["expected"] or "not installed" for name, item in packages.items()}
            seen = {name: item["observed"] or "not installed" for name, item in packages.items()}
            if have.get("changed"):
                expected["files"], seen["files"] = "as installed", list(have["changed"])
        if expected:
            found.append(difference("venv", directory, expected, seen))
    return found


def _sentence_of_venv(key: str, expected: Any, observed: Any) -> str:
    if "lock" in expected:
        return f"venv {key} is of the lock {value_words(observed['lock'])}, expected {value_words(expected['lock'])}"
    return sentence_of_fields("venv", key, expected, observed)


register(named={"venvs": _venvs}, sentences={"venv": _sentence_of_venv})
