# SPDX-License-Identifier: Apache-2.0
"""The one vocabulary in which a host's desired and observed state are written, and the comparison of the two.

Converge, verify, drift and check mode all ask `differences` and nothing else, so they cannot disagree.
Everything here is pure: plain dicts in, plain dicts out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

State = dict[str, Any]
Difference = dict[str, Any]

UNKNOWN = "unknown"
"""What an observation says of a thing it was not asked about or could not read."""

VOCABULARY: tuple[str, ...] = (
    "packages",
    "files",
    "sysctl",
    "units",
    "default_target",
    "links",
    "images",
    "containers",
    "snapshots",
    "gpus",
    "distributions",
    "disk_free",
)
"""Every key a desired state may have, in the order differences are reported."""

_FIELDS: dict[str, frozenset[str]] = {
    "files": frozenset({"content", "secret", "same_as", "mode", "owner", "group"}),
    "units": frozenset({"enabled", "active", "if_present"}),
    "links": frozenset({"mtu", "addresses", "up"}),
    "containers": frozenset({"image", "running"}),
    "snapshots": frozenset({"repository", "revision"}),
}


def content_digest(content: str) -> str:
    """The SHA-256 a file with this text has, as the observation reports it."""
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def difference(kind: str, key: str, expected: object, observed: object) -> Difference:
    """One thing that is not as it should be."""
    return {"kind": kind, "key": key, "expected": expected, "observed": observed}


def check_vocabulary(desired: Mapping[str, Any]) -> None:
    """Refuse a state with a word nobody compares: a misspelt key would otherwise always look right."""
    unknown = sorted(str(key) for key in desired if key not in VOCABULARY)
    if unknown:
        raise ValueError(
            f"desired state has unknown keys {', '.join(unknown)}; known keys are {', '.join(VOCABULARY)}: "
            "correct the spelling or extend the vocabulary"
        )
    for kind, known in _FIELDS.items():
        for name, item in (desired.get(kind) or {}).items():
            wrong = sorted(str(field) for field in item if field not in known)
            if wrong:
                raise ValueError(
                    f"desired state {kind}[{name}] has unknown fields {', '.join(wrong)}; "
                    f"known fields are {', '.join(sorted(known))}: correct the spelling"
                )


def subjects(desired_by_role: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """What has to be looked at on a host to judge these states: sorted names by kind, each once."""
    named: dict[str, set[str]] = {}
    for desired in desired_by_role.values():
        check_vocabulary(desired)
        for kind, items in desired.items():
            bucket = named.setdefault(kind, set())
            if kind not in ("default_target", "gpus", "distributions"):
                bucket.update(str(name) for name in items or {})
    return {kind: sorted(names) for kind, names in named.items()}


def ideal(desired: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]] | None = None) -> State:
    """The observation of a host on which `desired` holds exactly: their differences are empty."""
    check_vocabulary(desired)
    observed: State = {"errors": {}, "facts": {}}
    if "packages" in desired:
        observed["packages"] = {
            name: "1" if version is None else version for name, version in desired["packages"].items()
        }
    if "files" in desired:
        observed["files"] = {path: _ideal_file(path, want, peers or {}) for path, want in desired["files"].items()}
    if "sysctl" in desired:
        observed["sysctl"] = {key: _words(value) for key, value in desired["sysctl"].items()}
    if "units" in desired:
        observed["units"] = {
            name: {
                "load": "loaded",
                "enabled": bool(want.get("enabled", False)),
                "active": bool(want.get("active", False)),
                "sub": "running" if want.get("active") else "dead",
            }
            for name, want in desired["units"].items()
        }
    if "default_target" in desired:
        observed["default_target"] = desired["default_target"]
    if "links" in desired:
        observed["links"] = {
            port: {
                "exists": True,
                "mtu": want.get("mtu", 1500),
                "addresses": list(want.get("addresses", [])),
                "up": want.get("up", True),
            }
            for port, want in desired["links"].items()
        }
    if "images" in desired:
        observed["images"] = {reference: bool(want) for reference, want in desired["images"].items()}
    if "containers" in desired:
        observed["containers"] = {
            name: {"exists": True, "running": want.get("running", True), "image": want.get("image", "")}
            for name, want in desired["containers"].items()
        }
    if "snapshots" in desired:
        observed["snapshots"] = {
            path: {"verified": True, "reason": "", **want} for path, want in desired["snapshots"].items()
        }
    if "gpus" in desired:
        want = desired["gpus"]
        observed["gpus"] = {
            "count": want.get("count", 0),
            "names": [want.get("name", "")] * int(want.get("count", 0)),
            "driver": None,
            "error": None,
        }
    if desired.get("distributions"):
        observed["facts"].update(desired["distributions"][0])
    if "disk_free" in desired:
        observed["facts"]["disk_free"] = dict(desired["disk_free"])
    return observed


def _ideal_file(path: str, want: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]]) -> State:
    digest = content_digest(want["content"]) if "content" in want else content_digest("")
    if want.get("same_as"):
        digest = _peer_digest(path, want["same_as"], peers) or digest
    return {
        "exists": True,
        "sha256": digest,
        "mode": _mode(want.get("mode", "0644")),
        "owner": want.get("owner", "root"),
        "group": want.get("group", "root"),
    }


def differences(
    desired: Mapping[str, Any],
    observed: Mapping[str, Any],
    peers: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Difference]:
    """Everything in `desired` that `observed` does not show; empty means the host is right.

    `peers` maps host names to their observations and is only asked for files that must equal another host's.
    What the observation does not know counts as different: unknown is never right.
    """
    check_vocabulary(desired)
    found: list[Difference] = []
    found += _packages(desired.get("packages") or {}, observed.get("packages") or {})
    found += _files(desired.get("files") or {}, observed.get("files") or {}, peers or {})
    found += _sysctl(desired.get("sysctl") or {}, observed.get("sysctl") or {})
    found += _units(desired.get("units") or {}, observed.get("units") or {})
    target = desired.get("default_target")
    if target and observed.get("default_target") != target:
        found.append(difference("default_target", "default_target", target, observed.get("default_target") or UNKNOWN))
    found += _links(desired.get("links") or {}, observed.get("links") or {})
    found += _images(desired.get("images") or {}, observed.get("images") or {})
    found += _containers(desired.get("containers") or {}, observed.get("containers") or {})
    found += _snapshots(desired.get("snapshots") or {}, observed.get("snapshots") or {})
    found += _gpus(desired.get("gpus") or {}, observed.get("gpus"))
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


def _mode(mode: object) -> str:
    """A file mode as four octal digits, whether it was written "644", "0644" or 0o644."""
    text = format(mode, "o") if isinstance(mode, int) else str(mode)
    return text.lstrip("0").rjust(4, "0")


def _words(value: object) -> str:
    """A kernel setting with its tabs and runs of spaces made one space, as multi-value settings are read."""
    return " ".join(str(value).split())


def _packages(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    found = []
    for name, version in desired.items():
        have = observed.get(name, UNKNOWN)
        if have == UNKNOWN or have is None or (version is not None and have != version):
            found.append(difference("package", name, version, have))
    return found


def _peer_digest(path: str, host: str, peers: Mapping[str, Mapping[str, Any]]) -> str | None:
    entry = ((peers.get(host) or {}).get("files") or {}).get(path) or {}
    digest = entry.get("sha256")
    return str(digest) if digest else None


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
        if "content" in want:
            digest = content_digest(want["content"])
            if have.get("sha256") != digest:
                expected["sha256"], seen["sha256"] = digest, have.get("sha256") or UNKNOWN
        elif want.get("same_as"):
            digest_there = _peer_digest(path, want["same_as"], peers)
            if digest_there is None or have.get("sha256") != digest_there:
                # Only words about a secret leave the comparison, neither its content nor its digest.
                expected["content"] = f"equal to {want['same_as']}"
                seen["content"] = "different" if digest_there else f"{want['same_as']} has none to compare with"
        if "mode" in want and _mode(want["mode"]) != _mode(have.get("mode", "")):
            expected["mode"], seen["mode"] = _mode(want["mode"]), have.get("mode") or UNKNOWN
        for field in ("owner", "group"):
            if want.get(field) and want[field] != have.get(field):
                expected[field], seen[field] = want[field], have.get(field) or UNKNOWN
        if expected:
            found.append(difference("file", path, expected, seen))
    return found


def _sysctl(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    found = []
    for key, value in desired.items():
        have = observed.get(key, UNKNOWN)
        if have is None or _words(have) != _words(value):
            found.append(difference("sysctl", key, _words(value), have))
    return found


def _units(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    found = []
    for name, want in desired.items():
        have = observed.get(name)
        wanted = {field: bool(want[field]) for field in ("enabled", "active") if want.get(field) is not None}
        if have is None:
            found.append(difference("unit", name, wanted or {"load": "loaded"}, {"load": UNKNOWN}))
            continue
        if have.get("load") == "not-found":
            if not want.get("if_present"):
                found.append(difference("unit", name, wanted or {"load": "loaded"}, {"load": "not-found"}))
            continue
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
        if any(address not in present for address in want.get("addresses") or []):
            expected["addresses"], seen["addresses"] = list(want["addresses"]), present
        if expected:
            found.append(difference("link", port, expected, seen))
    return found


def _images(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    return [
        difference("image", reference, bool(want), observed.get(reference, UNKNOWN))
        for reference, want in desired.items()
        if observed.get(reference, UNKNOWN) is not bool(want)
    ]


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


def _snapshots(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    found = []
    for directory, want in desired.items():
        have = observed.get(directory) or {"verified": False, "reason": "not looked at"}
        expected = {"repository": want.get("repository"), "revision": want.get("revision"), "verified": True}
        seen = {field: have.get(field) for field in expected}
        if seen != expected:
            found.append(difference("snapshot", directory, expected, {**seen, "reason": have.get("reason") or ""}))
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


def _sentence_of_sysctl(key: str, expected: Any, observed: Any) -> str:
    return f"sysctl {key} is {'absent' if observed is None else observed}, expected {expected}"


def _sentence_of_target(_key: str, expected: Any, observed: Any) -> str:
    return f"default boot target is {observed}, expected {expected}"


def _sentence_of_image(key: str, expected: Any, observed: Any) -> str:
    have = UNKNOWN if observed == UNKNOWN else "present" if observed else "not present"
    return f"image {key} is {have}, expected {'present' if expected else 'absent'}"


def _sentence_of_snapshot(key: str, expected: Any, observed: Any) -> str:
    wanted = f"expected {expected['repository']} at {expected['revision']}"
    if not observed.get("verified"):
        return f"snapshot {key} is not verified ({observed.get('reason') or 'no reason given'}), {wanted}"
    return f"snapshot {key} is {observed.get('repository')} at {observed.get('revision')}, {wanted}"


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
    have = observed if observed == UNKNOWN else _gigabytes(observed)
    return f"free space at {key} is {have}, expected at least {_gigabytes(expected)}"


_SENTENCES: dict[str, Callable[[str, Any, Any], str]] = {
    "package": _sentence_of_package,
    "sysctl": _sentence_of_sysctl,
    "default_target": _sentence_of_target,
    "image": _sentence_of_image,
    "snapshot": _sentence_of_snapshot,
    "gpus": _sentence_of_gpus,
    "distribution": _sentence_of_distribution,
    "disk_free": _sentence_of_disk,
}


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB"


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
    return text[:12] if len(text) == 64 and not text.strip("0123456789abcdef") else text
