# SPDX-License-Identifier: Apache-2.0
"""The kinds of state that all subjects share: packages, files, kernel settings, units, links, containers and disk
space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..text import gigabytes
from .json_settings import ABSENT, lacking
from .vocabulary import (
    UNKNOWN,
    Difference,
    Peers,
    State,
    difference,
    file_mode,
    one_spaced,
    peer_digest,
    register,
    wanted_digest,
)


def _packages(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    found = []
    for name, version in desired.items():
        have = observed.get(name, UNKNOWN)
        if have == UNKNOWN or have is None or (version is not None and have != version):
            found.append(difference("package", name, version, have))
    return found


def _holds(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    return [
        difference("hold", name, bool(want), observed.get(name, UNKNOWN))
        for name, want in desired.items()
        if observed.get(name, UNKNOWN) is not bool(want)
    ]


def _files(desired: Mapping[str, Any], observed: Mapping[str, Any], peers: Peers) -> list[Difference]:
    found = []
    for path, want in desired.items():
        have = (observed.get("files") or {}).get(path)
        if have is None:
            found.append(difference("file", path, {"exists": True}, {"exists": UNKNOWN}))
            continue
        if not have.get("exists"):
            found.append(difference("file", path, {"exists": True}, {"exists": False}))
            continue
        expected: State = {}
        seen: State = {}
        digest = wanted_digest(want)
        if digest is not None:
            if have.get("sha256") != digest:
                expected["sha256"], seen["sha256"] = digest, have.get("sha256") or UNKNOWN
        elif want.get("same_as"):
            digest_there = peer_digest(path, want["same_as"], peers)
            if digest_there is None or have.get("sha256") != digest_there:
                # Never disclose a secret in a difference: neither its content nor its digest, only whether they match.
                expected["content"] = f"equal to {want['same_as']}"
                seen["content"] = "different" if digest_there else f"{want['same_as']} has none to compare with"
        _permissions(want, have, expected, seen)
        if expected:
            found.append(difference("file", path, expected, seen))
    return found


def _permissions(want: Mapping[str, Any], have: Mapping[str, Any], expected: State, seen: State) -> None:
    if "mode" in want and file_mode(want["mode"]) != file_mode(have.get("mode", "")):
        expected["mode"], seen["mode"] = file_mode(want["mode"]), have.get("mode") or UNKNOWN
    for field in ("owner", "group"):
        if want.get(field) and want[field] != have.get(field):
            expected[field], seen[field] = want[field], have.get(field) or UNKNOWN


def _json_files(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """Compare only our keys: anything else in the file is accepted."""
    found = []
    for path, want in desired.items():
        have = observed.get(path)
        if have is None or not have.get("exists"):
            exists = UNKNOWN if have is None else False
            found.append(difference("settings", path, {"exists": True}, {"exists": exists}))
            continue
        if have.get("error"):
            found.append(difference("settings", path, {"format": "a JSON object"}, {"error": have["error"]}))
            continue
        expected: State = {}
        seen: State = {}
        for name, ours, theirs in lacking(
            have.get("settings") or {}, want.get("settings") or {}, want.get("whole") or ()
        ):
            expected[name], seen[name] = ours, "absent" if theirs is ABSENT else theirs
        _permissions(want, have, expected, seen)
        if expected:
            found.append(difference("settings", path, expected, seen))
    return found


def _sysctl(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    found = []
    for key, value in desired.items():
        have = observed.get(key, UNKNOWN)
        if have is None or one_spaced(have) != one_spaced(value):
            found.append(difference("sysctl", key, one_spaced(value), have))
    return found


def _units(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    found = []
    for name, want in desired.items():
        have = observed.get(name)
        wanted = {field: bool(want[field]) for field in ("enabled", "active", "masked") if want.get(field) is not None}
        if have is None:
            found.append(difference("unit", name, wanted or {"load": "loaded"}, {"load": UNKNOWN}))
            continue
        if have.get("load") == "not-found":
            if not want.get("if_present"):
                found.append(difference("unit", name, wanted or {"load": "loaded"}, {"load": "not-found"}))
            continue
        have = {**have, "masked": have.get("load") == "masked"}
        expected = {field: value for field, value in wanted.items() if have.get(field) is not value}
        if expected:
            seen = {field: have.get(field, UNKNOWN) for field in expected}
            if "active" in seen and have.get("sub"):
                seen["sub"] = have["sub"]
            found.append(difference("unit", name, expected, seen))
    return found


def _default_target(desired: str, observed: Mapping[str, Any], _peers: Peers) -> list[Difference]:
    have = observed.get("default_target") or UNKNOWN
    return [] if have == desired else [difference("default_target", "default_target", desired, have)]


def _links(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    found = []
    for port, want in desired.items():
        have = observed.get(port)
        if have is None:
            found.append(difference("link", port, {"exists": True}, {"exists": UNKNOWN}))
            continue
        if not have.get("exists"):
            found.append(difference("link", port, {"exists": True}, {"exists": False}))
            continue
        expected: State = {}
        seen: State = {}
        for field in ("mtu", "up"):
            if want.get(field) is not None and want[field] != have.get(field):
                expected[field], seen[field] = want[field], have.get(field, UNKNOWN)
        present = list(have.get("addresses") or [])
        wanted = list(want.get("addresses") or [])
        # A surplus IPv4 address is a difference just like a missing one: a leftover may be another host's.
        strange = [address for address in present if ":" not in address and address not in wanted]
        if wanted and (strange or any(address not in present for address in wanted)):
            expected["addresses"], seen["addresses"] = wanted, present
        if expected:
            found.append(difference("link", port, expected, seen))
    return found


def _containers(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    found = []
    for name, want in desired.items():
        have = observed.get(name)
        if have is None or not have.get("exists"):
            exists = UNKNOWN if have is None else False
            found.append(difference("container", name, {"exists": True}, {"exists": exists}))
            continue
        fields = [field for field in ("image", "running") if want.get(field) is not None]
        expected = {field: want[field] for field in fields if want[field] != have.get(field)}
        if expected:
            seen = {field: have.get(field, UNKNOWN) for field in expected}
            found.append(difference("container", name, expected, seen))
    return found


def _distributions(
    desired: Iterable[Mapping[str, Any]], observed: Mapping[str, Any], _peers: Peers
) -> list[Difference]:
    facts = observed.get("facts") or {}
    accepted = [{"distribution": str(item["distribution"]), "version": str(item["version"])} for item in desired]
    have = {
        "distribution": str(facts.get("distribution") or UNKNOWN),
        "version": str(facts.get("version") or UNKNOWN),
    }
    names = [(one["distribution"].lower(), one["version"]) for one in accepted]
    if not accepted or (have["distribution"].lower(), have["version"]) in names:
        return []
    return [difference("distribution", "distribution", accepted, have)]


def _disk_free(desired: Mapping[str, Any], observed: Mapping[str, Any], _peers: Peers) -> list[Difference]:
    found = []
    free = (observed.get("facts") or {}).get("disk_free") or {}
    for path, least in desired.items():
        have = free.get(path)
        if have is None or have < least:
            found.append(difference("disk_free", path, least, UNKNOWN if have is None else have))
    return found


def _sentence_of_package(key: str, expected: Any, observed: Any) -> str:
    wanted = "installed" if expected is None else f"version {expected}"
    have = "not installed" if observed is None else UNKNOWN if observed == UNKNOWN else f"version {observed}"
    return f"package {key} is {have}, expected {wanted}"


def _sentence_of_hold(key: str, expected: Any, observed: Any) -> str:
    have = UNKNOWN if observed == UNKNOWN else "held" if observed else "not held"
    return f"package {key} is {have}, expected {'held' if expected else 'not held'}"


def _sentence_of_sysctl(key: str, expected: Any, observed: Any) -> str:
    return f"sysctl {key} is {'absent' if observed is None else observed}, expected {expected}"


def _sentence_of_target(_key: str, expected: Any, observed: Any) -> str:
    return f"default boot target is {observed}, expected {expected}"


def _sentence_of_distribution(_key: str, expected: Any, observed: Any) -> str:
    wanted = " or ".join(f"{one['distribution']} {one['version']}" for one in expected)
    return f"distribution is {observed['distribution']} {observed['version']}, expected {wanted}"


def _sentence_of_disk(key: str, expected: Any, observed: Any) -> str:
    have = observed if observed == UNKNOWN else gigabytes(observed)
    return f"free space at {key} is {have}, expected at least {gigabytes(expected)}"


register(
    named={
        "packages": _packages,
        "holds": _holds,
        "json_files": _json_files,
        "sysctl": _sysctl,
        "units": _units,
        "links": _links,
        "containers": _containers,
    },
    compared={
        "files": _files,
        "default_target": _default_target,
        "distributions": _distributions,
        "disk_free": _disk_free,
    },
    sentences={
        "package": _sentence_of_package,
        "hold": _sentence_of_hold,
        "sysctl": _sentence_of_sysctl,
        "default_target": _sentence_of_target,
        "distribution": _sentence_of_distribution,
        "disk_free": _sentence_of_disk,
    },
)
