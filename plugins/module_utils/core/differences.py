# SPDX-License-Identifier: Apache-2.0
"""The comparison of a host's desired and observed state.

Converge, verify, drift and check mode all ask `differences` and nothing else, so they cannot disagree.
Everything here is pure: plain dicts in, plain dicts out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .driver import matches, wanted_words
from .fabric.kinds import fabric_differences
from .file_selection import files_lacking, read_selection
from .firewall_kinds import ruleset_differences
from .firmware import firmware_differences
from .gpu import health
from .image_kinds import image_differences
from .json_settings import ABSENT, lacking
from .serving_kinds import serving_differences
from .state import (
    UNKNOWN,
    State,
    check_vocabulary,
    file_mode,
    one_spaced,
    peer_digest,
    wanted_contents,
    wanted_digest,
)
from .tuning_kinds import tuning_differences
from .venv import package_differences

Difference = dict[str, Any]


def difference(kind: str, key: str, expected: object, observed: object) -> Difference:
    """One thing that is not as it should be."""
    return {"kind": kind, "key": key, "expected": expected, "observed": observed}


def differences(
    desired: Mapping[str, Any],
    observed: Mapping[str, Any],
    peers: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Difference]:
    """Everything in `desired` that `observed` does not show; empty means the host is right.

    `peers` maps host names to their observations and is only asked for what must equal another host's.
    What the observation does not know counts as different: unknown is never right.
    """
    check_vocabulary(desired)
    found: list[Difference] = []
    found += _packages(desired.get("packages") or {}, observed.get("packages") or {})
    found += _holds(desired.get("holds") or {}, observed.get("holds") or {})
    found += _files(desired.get("files") or {}, observed.get("files") or {}, peers or {})
    found += _json_files(desired.get("json_files") or {}, observed.get("json_files") or {})
    found += _sysctl(desired.get("sysctl") or {}, observed.get("sysctl") or {})
    found += _units(desired.get("units") or {}, observed.get("units") or {})
    target = desired.get("default_target")
    if target and observed.get("default_target") != target:
        found.append(difference("default_target", "default_target", target, observed.get("default_target") or UNKNOWN))
    found += tuning_differences(desired, observed)
    found += _links(desired.get("links") or {}, observed.get("links") or {})
    found += fabric_differences(desired, observed)
    found += firmware_differences(desired.get("firmware") or {}, observed.get("firmware") or {})
    found += image_differences(desired.get("images") or {}, observed.get("images") or {}, peers or {})
    found += _containers(desired.get("containers") or {}, observed.get("containers") or {})
    found += _snapshots(desired.get("snapshots") or {}, observed.get("snapshots") or {}, peers or {})
    found += _venvs(desired.get("venvs") or {}, observed.get("venvs") or {})
    found += serving_differences(desired, observed)
    found += ruleset_differences(desired, observed)
    found += _driver(desired.get("driver") or {}, observed.get("driver"))
    found += _cuda(desired.get("cuda") or {}, observed.get("cuda") or {})
    found += _cdi(desired.get("cdi") or {}, observed.get("cdi") or {})
    found += _gpus(desired.get("gpus") or {}, observed.get("gpus"))
    found += _gpu_health(desired.get(health.KIND) or {}, observed.get(health.KIND))
    facts = observed.get("facts") or {}
    found += _distributions(desired.get("distributions") or [], facts)
    found += _disk_free(desired.get("disk_free") or {}, facts.get("disk_free") or {})
    return found


def differences_by_role(
    desired_by_role: Mapping[str, Mapping[str, Any]],
    observed: Mapping[str, Any],
    peers: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, list[Difference]]:
    """`differences` for each role's slice of the plan."""
    return {role: differences(desired, observed, peers) for role, desired in desired_by_role.items()}


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


def _files(
    desired: Mapping[str, Any], observed: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]]
) -> list[Difference]:
    found = []
    for path, want in desired.items():
        have = observed.get(path)
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
                # Only words about a secret leave the comparison, neither its content nor its digest.
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
    """Only our keys count: what else is in the file is right."""
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
        # An IPv4 address too many is as wrong as one too few: a leftover may be another host's.
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


def _snapshots(
    desired: Mapping[str, Any], observed: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]]
) -> list[Difference]:
    found = []
    for directory, want in desired.items():
        have = observed.get(directory) or {"verified": False, "reason": "not looked at"}
        expected = {"repository": want.get("repository"), "revision": want.get("revision"), "verified": True}
        seen = {field: have.get(field) for field in expected}
        brought, left_out = have.get("files") or [], have.get("left_out") or []
        wanted = files_lacking(read_selection(want.get("selection")), brought, left_out)
        if wanted:
            expected["files"], seen["files"] = wanted, []
        contents = wanted_contents(directory, want, peers)
        if contents:
            expected["contents"], seen["contents"] = contents, have.get("contents") or ""
        if seen != expected:
            found.append(difference("snapshot", directory, expected, {**seen, "reason": have.get("reason") or ""}))
    return found


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
            packages = package_differences(want["packages"], have.get("packages") or {})
            expected = {name: item["expected"] or "not installed" for name, item in packages.items()}
            seen = {name: item["observed"] or "not installed" for name, item in packages.items()}
            if have.get("changed"):
                expected["files"], seen["files"] = "as installed", list(have["changed"])
        if expected:
            found.append(difference("venv", directory, expected, seen))
    return found


def _driver(desired: Mapping[str, Any], observed: Mapping[str, Any] | None) -> list[Difference]:
    """A driver is right when what is installed, what is loaded and what programs use are all of the pin."""
    if not desired:
        return []
    pin = wanted_words(desired)
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
        # Both of the branch that is asked for, but not the same.
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
    """A toolkit is right when its compiler answers, is of the release, and is the pinned one."""
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
        # Not every set has the file that tells the version in full.
        known = {field: value for field, value in wanted.items() if field != "version" or have.get("version")}
        expected = {field: value for field, value in known.items() if have.get(field) != value}
        if expected:
            found.append(difference("cuda", release, expected, {field: have.get(field) for field in expected}))
    return found


def _cdi(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """A specification is right when it names this host's GPUs and its loaded driver, and no other file names them."""
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


def _gpus(desired: Mapping[str, Any], observed: Mapping[str, Any] | None) -> list[Difference]:
    if not desired:
        return []
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


def _gpu_health(desired: Mapping[str, Any], observed: Mapping[str, Any] | None) -> list[Difference]:
    """One difference a check that is not right; what to do about it goes with what was observed."""
    fields = ("verdict", "observed", "remedy", "command")
    return [
        difference(health.CHECK, str(one["id"]), one["expected"], {field: one.get(field) for field in fields})
        for one in health.not_right(desired, observed)
    ]


def _distributions(desired: Iterable[Mapping[str, Any]], facts: Mapping[str, Any]) -> list[Difference]:
    accepted = [{"distribution": str(item["distribution"]), "version": str(item["version"])} for item in desired]
    have = {
        "distribution": str(facts.get("distribution") or UNKNOWN),
        "version": str(facts.get("version") or UNKNOWN),
    }
    names = [(one["distribution"].lower(), one["version"]) for one in accepted]
    if not accepted or (have["distribution"].lower(), have["version"]) in names:
        return []
    return [difference("distribution", "distribution", accepted, have)]


def _disk_free(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    found = []
    for path, least in desired.items():
        have = observed.get(path)
        if have is None or have < least:
            found.append(difference("disk_free", path, least, UNKNOWN if have is None else have))
    return found
