# SPDX-License-Identifier: Apache-2.0
"""Differences as sentences for an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .fabric.kinds import SENTENCES as FABRIC_SENTENCES
from .firewall_kinds import SENTENCES as FIREWALL_SENTENCES
from .firmware import SENTENCES as FIRMWARE_SENTENCES
from .gpu import health
from .image_kinds import image_sentence
from .serving_kinds import SENTENCES as SERVING_SENTENCES
from .state import UNKNOWN
from .tuning_kinds import SENTENCES as TUNING_SENTENCES
from .words import gigabytes, is_hexadecimal


def explain(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """One sentence a difference, saying what was found and what was expected."""
    return [_sentence(item) for item in found]


def _sentence(item: Mapping[str, Any]) -> str:
    special = _SENTENCES.get(item["kind"])
    if special is not None:
        return special(item["key"], item["expected"], item["observed"])
    return _sentence_of_fields(item["kind"], item["key"], item["expected"], item["observed"])


def _sentence_of_fields(kind: str, key: str, expected: Any, observed: Any) -> str:
    if isinstance(observed, Mapping) and observed.get("exists", True) is False:
        return f"{kind} {key} is missing, expected it to exist"
    if isinstance(observed, Mapping) and observed.get("load") == "not-found":
        return f"{kind} {key} is not installed, expected {_fields(expected)}"
    return f"{kind} {key} has {_fields(observed)}, expected {_fields(expected)}"


def _sentence_of_package(key: str, expected: Any, observed: Any) -> str:
    wanted = "installed" if expected is None else f"version {expected}"
    have = "not installed" if observed is None else UNKNOWN if observed == UNKNOWN else f"version {observed}"
    return f"package {key} is {have}, expected {wanted}"


def _sentence_of_hold(key: str, expected: Any, observed: Any) -> str:
    have = UNKNOWN if observed == UNKNOWN else "held" if observed else "not held"
    return f"package {key} is {have}, expected {'held' if expected else 'not held'}"


_DRIVER_WORDS = {
    "installed": "installed driver",
    "loaded": "loaded driver module",
    "library": "driver library",
    "answer": "nvidia-smi",
    "flavour": "kernel module",
    "nouveau": "nouveau, which takes the GPU first,",
    "mig": "MIG",
    "mixed": "parts of another driver release installed:",
}


def _sentence_of_driver(key: str, expected: Any, observed: Any) -> str:
    subject = _DRIVER_WORDS.get(key, key)
    if key == "answer":
        return f"{subject} does not answer ({observed}), expected {expected}"
    if key == "mixed":
        return f"{subject} {observed}, expected {expected}"
    return f"{subject} is {'none' if observed is None else observed}, expected {expected}"


def _sentence_of_cuda(key: str, expected: Any, observed: Any) -> str:
    wanted = ", ".join(f"{field} {value}" for field, value in expected.items())
    if "error" in observed:
        return f"the compiler of CUDA {key} does not answer ({observed['error']}), expected {wanted}"
    if "exists" in observed:
        have = UNKNOWN if observed["exists"] == UNKNOWN else "not there"
        return f"the compiler of CUDA {key} is {have}, expected {wanted}"
    return f"the compiler of CUDA {key} has {_fields(observed)}, expected {wanted}"


def _sentence_of_cdi(key: str, expected: Any, observed: Any) -> str:
    if "waiting" in observed:
        return f"CDI specification {key} cannot be written ({observed['waiting']}), expected a driver that answers"
    return _sentence_of_fields("CDI specification", key, expected, observed)


def _sentence_of_sysctl(key: str, expected: Any, observed: Any) -> str:
    return f"sysctl {key} is {'absent' if observed is None else observed}, expected {expected}"


def _sentence_of_target(_key: str, expected: Any, observed: Any) -> str:
    return f"default boot target is {observed}, expected {expected}"


def _sentence_of_snapshot(key: str, expected: Any, observed: Any) -> str:
    wanted = f"expected {expected['repository']} at {expected['revision']}"
    if not observed.get("verified"):
        return f"snapshot {key} is not verified ({observed.get('reason') or 'no reason given'}), {wanted}"
    if expected.get("files"):
        more = f" and {len(expected['files']) - 1} more" if len(expected["files"]) > 1 else ""
        return f"snapshot {key} was brought without {expected['files'][0]}{more}, which the engine is to load, {wanted}"
    if (expected["repository"], expected["revision"]) == (observed.get("repository"), observed.get("revision")):
        have, pin = observed.get("contents") or "nobody knows which", expected.get("contents")
        return f"snapshot {key} has the bytes {have}, expected {pin} as they are pinned, or on the head"
    return f"snapshot {key} is {observed.get('repository')} at {observed.get('revision')}, {wanted}"


def _sentence_of_venv(key: str, expected: Any, observed: Any) -> str:
    if "lock" in expected:
        return f"venv {key} is of the lock {_value(observed['lock'])}, expected {_value(expected['lock'])}"
    return _sentence_of_fields("venv", key, expected, observed)


def _sentence_of_gpus(_key: str, expected: Any, observed: Any) -> str:
    wanted = " ".join(str(expected[field]) for field in ("count", "name") if field in expected)
    if "error" in observed:
        return f"GPUs cannot be read ({observed['error']}), expected {wanted}"
    listed = ", ".join(sorted(set(observed["names"]))) or "none"
    return f"GPUs found are {observed['count']} ({listed}), expected {wanted}"


def _sentence_of_distribution(_key: str, expected: Any, observed: Any) -> str:
    wanted = " or ".join(f"{one['distribution']} {one['version']}" for one in expected)
    return f"distribution is {observed['distribution']} {observed['version']}, expected {wanted}"


def _sentence_of_disk(key: str, expected: Any, observed: Any) -> str:
    have = observed if observed == UNKNOWN else gigabytes(observed)
    return f"free space at {key} is {have}, expected at least {gigabytes(expected)}"


_SENTENCES: dict[str, Callable[[str, Any, Any], str]] = {
    "package": _sentence_of_package,
    "hold": _sentence_of_hold,
    "driver": _sentence_of_driver,
    "cuda": _sentence_of_cuda,
    "cdi": _sentence_of_cdi,
    "sysctl": _sentence_of_sysctl,
    "default_target": _sentence_of_target,
    "image": image_sentence,
    "snapshot": _sentence_of_snapshot,
    "venv": _sentence_of_venv,
    "gpus": _sentence_of_gpus,
    health.CHECK: health.sentence,
    "distribution": _sentence_of_distribution,
    "disk_free": _sentence_of_disk,
    **TUNING_SENTENCES,
    **FABRIC_SENTENCES,
    **FIRMWARE_SENTENCES,
    **SERVING_SENTENCES,
    **FIREWALL_SENTENCES,
}


def _fields(values: object) -> str:
    if not isinstance(values, Mapping):
        return str(values)
    return ", ".join(f"{field} {_value(value)}" for field, value in values.items())


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(str(one) for one in value) or "none"
    text = "none" if value is None else str(value)
    return text[:12] if is_hexadecimal(text, 64) else text
