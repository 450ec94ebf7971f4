# SPDX-License-Identifier: Apache-2.0
"""Checks of the results of NVIDIA's own diagnostic, from a capture or from the burn-in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...parsers.reading import Reading, of_kind
from ..check import Check, could_not_check, failed, not_applicable, passed
from ..expected import Expected

KIND = "dcgm-diag"
COMMAND = ("dcgmi", "diag", "-r", "1", "-j")
NAME = "burn_in.dcgm"
_NAMED = 4
_FAULT = (
    "fix what it reports; if a board is at fault, take the GPU out of service and run `dcgmi diag -r 3` on it "
    "before replacing it"
)
_SOFTWARE = "deployment"
"""The category of checks that need no plugin; those of them that do not apply to a host say so."""
_PLUGINS = (
    "plugins that are not installed are skipped silently: install the package for the driver's CUDA "
    "(datacenter-gpu-manager-4-cuda13) beside datacenter-gpu-manager-4-core, in the same version, and run it again"
)
_AGAIN = "check that nvidia-dcgm runs and that nothing else uses the GPUs, then run `dcgmi diag -r 1 -j`"


def check_dcgm(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Evaluate the diagnostic in every capture that contains one."""
    return [evaluate_dcgm(reading, reading.data, reading.problems, expected) for reading in of_kind(readings, KIND)]


def check_dcgm_run(reading: Reading, run: Any, expected: Expected) -> Check:
    """Evaluate the diagnostic that the burn-in ran, as recorded in its document."""
    if not isinstance(run, Mapping):
        return not_applicable(NAME, reading, _wanted(expected), "the diagnostic was not requested")
    if run.get("absent"):
        return not_applicable(NAME, reading, _wanted(expected), "dcgmi is not installed on the host")
    return evaluate_dcgm(reading, run.get("data") or {}, tuple(run.get("problems") or ()), expected)


def evaluate_dcgm(reading: Reading, data: Mapping[str, Any], problems: Sequence[str], expected: Expected) -> Check:
    """Evaluate the diagnostic: a failed test decides, then anything unknown; a pass must cover every GPU."""
    wanted, tests = _wanted(expected), data.get("tests") or []
    wrong = _by_test([one for one in tests if one["status"] == "fail"])
    if wrong:
        return failed(NAME, reading, wanted, _some(wrong), _FAULT)
    if data.get("error"):
        return could_not_check(NAME, reading, wanted, str(data["error"]), _AGAIN)
    warned = _by_test([one for one in tests if one["status"] == "warn"])
    if problems or warned:
        return could_not_check(NAME, reading, wanted, _some([*warned, *problems]), _AGAIN)
    if data.get("rc"):
        return could_not_check(NAME, reading, wanted, f"no test failed, but dcgmi returned {data['rc']}", _AGAIN)
    done = [one for one in tests if one["status"] == "pass"]
    names = list(dict.fromkeys(one["name"] for one in done))
    gpus = list(data.get("gpu_ids") or ())
    if not done:
        return could_not_check(
            NAME, reading, wanted, "no test was run" if not tests else "all tests were skipped", _AGAIN
        )
    tried = {gpu for one in done for gpu in one["gpus"]}
    untried = [gpu for gpu in gpus if tried and gpu not in tried]
    if untried or len(gpus) < expected.gpus:
        why = f"no test passed on {_gpus(untried)}" if untried else f"{len(gpus)} of {expected.gpus} GPUs were tested"
        return could_not_check(NAME, reading, wanted, why, _AGAIN)
    skipped = [one for one in tests if one["status"] == "skip" and one["name"] not in names]
    plugins = list(dict.fromkeys(one["name"] for one in skipped if one["category"].lower() != _SOFTWARE))
    if plugins:
        return could_not_check(NAME, reading, wanted, f"these tests were not run: {', '.join(plugins)}", _PLUGINS)
    left = list(dict.fromkeys(one["name"] for one in skipped))
    told = f"{', '.join(names)} on {len(gpus)} GPU{'' if len(gpus) == 1 else 's'}"
    version = f", DCGM {data['version']}" if data.get("version") else ""
    return passed(NAME, reading, wanted, told + (f"; skipped: {', '.join(left)}" if left else "") + version)


def _wanted(expected: Expected) -> str:
    return f"NVIDIA's diagnostic passes on {expected.gpus} GPU{'' if expected.gpus == 1 else 's'}"


def _by_test(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line per test: its GPUs, and its first message."""
    found: dict[str, tuple[list[int], list[str]]] = {}
    for one in tests:
        gpus, says = found.setdefault(str(one["name"]), ([], []))
        gpus += one["gpus"]
        says += one["says"]
    return [
        f"{name}{f' on {_gpus(sorted(set(gpus)))}' if gpus else ''}{f': {says[0]}' if says else ''}"
        for name, (gpus, says) in found.items()
    ]


def _gpus(ids: Sequence[int]) -> str:
    return f"GPU {', '.join(str(one) for one in ids)}"


def _some(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return "; ".join(lines[:_NAMED]) + more
