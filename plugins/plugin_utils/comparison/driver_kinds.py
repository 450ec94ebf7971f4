# SPDX-License-Identifier: Apache-2.0
"""The kinds of state around the NVIDIA driver: the driver itself, CUDA, CDI, and the visible GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import matches, wanted_words
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import (
    UNKNOWN,
    Difference,
    Peers,
    difference,
    fields_words,
    register,
    sentence_of_fields,
)


def _driver(desired: Mapping[str, Any], observation: Mapping[str, Any], _peers: Peers) -> list[Difference]:
    """Compare the driver: package, loaded module and user-space library must all match the pin."""
    pin = wanted_words(desired)
    observed = observation.get("driver")
    if observed is None:
        return [difference("driver", "installed", pin, UNKNOWN)]
    found = [
        difference("driver", field, pin, observed.get(field))
        for field in ("installed", "loaded", "library")
        if not matches(observed.get(field), desired)
    ]
    if (
        observed.get("loaded")
        and observed.get("installed")
        and observed["loaded"] != observed["installed"]
        and not found
    ):
        # Both match the desired branch, but differ from each other.
        found.append(difference("driver", "loaded", observed["installed"], observed["loaded"]))
    if observed.get("error"):
        found.append(difference("driver", "answer", "an answer", observed["error"]))
    flavour = desired.get("flavour")
    if flavour and observed.get("loaded") and observed.get("flavour") != flavour:
        found.append(difference("driver", "flavour", flavour, observed.get("flavour") or UNKNOWN))
    if observed.get("mixed"):
        found.append(difference("driver", "mixed", "none", ", ".join(observed["mixed"])))
    if observed.get("nouveau"):
        found.append(difference("driver", "nouveau", "not loaded", "loaded"))
    mig = observed.get("mig") or {}
    if desired.get("mig") is False and (mig.get("current") or mig.get("pending")):
        found.append(difference("driver", "mig", "off", "on" if mig.get("current") else "on after the next reset"))
    return found


def _cuda(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """Compare CUDA toolkits: the compiler must run, and release and version must match the pin."""
    found = []
    for release, want in desired.items():
        have = observed.get(release)
        wanted = {"release": release, **{field: want[field] for field in ("compiler", "version") if want.get(field)}}
        if have is None or not have.get("exists"):
            found.append(difference("cuda", release, wanted, {"exists": UNKNOWN if have is None else False}))
            continue
        if have.get("error"):
            found.append(difference("cuda", release, wanted, {"error": have["error"]}))
            continue
        # Not every toolkit has the file with the full version.
        known = {field: value for field, value in wanted.items() if field != "version" or have.get("version")}
        expected = {field: value for field, value in known.items() if have.get(field) != value}
        if expected:
            found.append(difference("cuda", release, expected, {field: have.get(field) for field in expected}))
    return found


def _cdi(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """Compare CDI specifications: one must describe this host's GPUs and loaded driver, and no other file may."""
    found = []
    for path in desired:
        have = observed.get(path)
        if have is None:
            found.append(difference("cdi", path, {"exists": True}, {"exists": UNKNOWN}))
        elif have.get("waiting"):
            found.append(difference("cdi", path, {"driver": "one that answers"}, {"waiting": have["waiting"]}))
        elif not have.get("exists"):
            found.append(difference("cdi", path, {"exists": True}, {"exists": False}))
        elif have.get("wrong"):
            expected = {field: pair[0] for field, pair in have["wrong"].items()}
            found.append(difference("cdi", path, expected, {field: pair[1] for field, pair in have["wrong"].items()}))
    return found


def _gpus(desired: Mapping[str, Any], observation: Mapping[str, Any], _peers: Peers) -> list[Difference]:
    observed = observation.get("gpus")
    expected = {field: desired[field] for field in ("count", "name") if desired.get(field) is not None}
    if observed is None or observed.get("error"):
        reason = "not looked at" if observed is None else observed["error"]
        return [difference("gpus", "gpus", expected, {"error": reason})]
    names = list(observed.get("names") or [])
    wrong_count = "count" in expected and observed.get("count") != expected["count"]
    wrong_name = "name" in expected and any(name != expected["name"] for name in names)
    if wrong_count or wrong_name:
        return [difference("gpus", "gpus", expected, {"count": observed.get("count"), "names": names})]
    return []


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
    return f"the compiler of CUDA {key} has {fields_words(observed)}, expected {wanted}"


def _sentence_of_cdi(key: str, expected: Any, observed: Any) -> str:
    if "waiting" in observed:
        return f"CDI specification {key} cannot be written ({observed['waiting']}), expected a driver that answers"
    return sentence_of_fields("CDI specification", key, expected, observed)


def _sentence_of_gpus(_key: str, expected: Any, observed: Any) -> str:
    wanted = " ".join(str(expected[field]) for field in ("count", "name") if field in expected)
    if "error" in observed:
        return f"GPUs cannot be read ({observed['error']}), expected {wanted}"
    listed = ", ".join(sorted(set(observed["names"]))) or "none"
    return f"GPUs found are {observed['count']} ({listed}), expected {wanted}"


register(
    named={"cuda": _cuda, "cdi": _cdi},
    compared={"driver": _driver, "gpus": _gpus},
    sentences={
        "driver": _sentence_of_driver,
        "cuda": _sentence_of_cuda,
        "cdi": _sentence_of_cdi,
        "gpus": _sentence_of_gpus,
    },
)
