# SPDX-License-Identifier: Apache-2.0
"""Parses `dcgmi diag -r LEVEL -j`.

DCGM 3 identifies a result's GPUs by `gpu_id` or `gpu_ids`, DCGM 4 by `entity_group` and `entity_id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .captures import capture_lines, json_objects
from .reading import quoted

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_WORDS = {"pass": "pass", "fail": "fail", "warn": "warn", "skip": "skip", "skipped": "skip", "not run": "skip"}
_RETURNED = re.compile(r"^\s*rc\s*=\s*(-?\d{1,3})\s*$")
_GPU_GROUP = 1
_LONGEST = 300


def parse_dcgm_diag(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse every result of every test.

    {"tests": [{category, name, status, gpus, says}], "gpu_ids", "version", "driver", "rc", "error"}. An unknown status
    is kept as written, and reported as a problem. Serial numbers are left out.
    """
    returned = [int(found[1]) for line in capture_lines(text) if (found := _RETURNED.match(line))]
    for document in json_objects(text):
        root = next((document[name] for name in _ROOTS if isinstance(document.get(name), Mapping)), None)
        if root is not None:
            return _read(document, root, returned[-1] if returned else None)
    first = next((line for line in capture_lines(text) if line.strip() and not line.startswith("$")), "")
    return {}, [f"no result of a diagnostic as JSON is in {quoted(first)}" if first else "it printed nothing"]


def _read(document: Mapping[str, Any], root: Mapping[str, Any], rc: int | None) -> tuple[dict[str, Any], list[str]]:
    problems: list[str] = []
    tests = list(_tests(root, problems))
    told = document.get("metadata")
    metadata: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    error = next((str(one) for one in (root.get("runtime_error"), document.get("runtime_error")) if one), None)
    gpus = {gpu for one in tests for gpu in one["gpus"]} | _entities(document.get("entity_groups"))
    gpus |= _entities(root.get("entity_groups"))
    ids = root.get("GPU Device IDs")
    data = {
        "version": _text(metadata.get("version") or root.get("version")),
        "driver": _text(metadata.get("Driver Version Detected") or root.get("Driver Version Detected")),
        "error": " ".join(error.split())[:_LONGEST] if error else None,
        "rc": rc,
        "gpu_ids": sorted(gpus) or (list(range(len(ids))) if isinstance(ids, list) else []),
        "tests": tests,
    }
    if not tests and not error:
        problems.append("the result has no test in it")
    return data, problems


def _tests(root: Mapping[str, Any], problems: list[str]) -> Iterator[dict[str, Any]]:
    for category in _dicts(root.get("test_categories"), "test_categories", problems):
        title = _text(category.get("category")) or "?"
        for test in _dicts(category.get("tests"), f"the tests of {title}", problems):
            name = _text(test.get("name")) or "?"
            summary = test.get("test_summary")
            results = _dicts(test.get("results") or [], f"the results of {name}", problems)
            results += [summary] if isinstance(summary, Mapping) else []
            if not results:
                problems.append(f"the test {name} has no result")
            for one in results:
                yield _result(title, name, one, problems)


def _result(category: str, name: str, one: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    said = _text(one.get("status")) or ""
    status = _WORDS.get(said.lower(), said)
    if said.lower() not in _WORDS:
        problems.append(f"the status of {name} is {quoted(said)}, expected Pass, Fail, Warn or Skip")
    words = [*_messages(one.get("warnings")), *_messages(one.get("info"))]
    return {"category": category, "name": name, "status": status, "gpus": _gpus(one), "says": words}


def _gpus(one: Mapping[str, Any]) -> list[int]:
    """The GPUs of a result; empty if it is about the host or a processor, or does not say."""
    if "entity_id" in one:
        group = one.get("entity_group_id", _GPU_GROUP) if "entity_group" not in one else one["entity_group"]
        own = group == _GPU_GROUP or str(group).upper() == "GPU"
        return [one["entity_id"]] if own and isinstance(one["entity_id"], int) else []
    told = str(one.get("gpu_id", one.get("gpu_ids", "")))
    return [int(number) for number in re.findall(r"\d{1,4}", told)]


def _entities(groups: Any) -> set[int]:
    found: set[int] = set()
    for group in groups if isinstance(groups, list) else []:
        if not isinstance(group, Mapping) or not isinstance(group.get("entities"), list):
            continue
        if group.get("entity_group_id") == _GPU_GROUP or str(group.get("entity_group")).upper() == "GPU":
            ids = [one.get("entity_id") for one in group["entities"] if isinstance(one, Mapping)]
            found.update(one for one in ids if isinstance(one, int))
    return found


def _messages(listed: Any) -> list[str]:
    """The sentences of a result: DCGM 4 wraps each in an object, DCGM 3 lists them directly."""
    several = listed if isinstance(listed, list) else [listed] if listed else []
    words = [one.get("warning") or one.get("message") if isinstance(one, Mapping) else one for one in several]
    return [" ".join(str(one).split())[:_LONGEST] for one in words if one]


def _dicts(listed: Any, what: str, problems: list[str]) -> list[Mapping[str, Any]]:
    if isinstance(listed, list) and all(isinstance(one, Mapping) for one in listed):
        return list(listed)
    if listed is not None:
        problems.append(f"{what} are {quoted(str(listed))}, expected a list of objects")
    return []


def _text(value: Any) -> str | None:
    return " ".join(str(value).split())[:_LONGEST] if isinstance(value, str | int | float) and value != "" else None
