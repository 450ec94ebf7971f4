# SPDX-License-Identifier: Apache-2.0
"""The one vocabulary in which a host's desired and observed state are written.

Everything here is pure: plain dicts in, plain dicts out. How the two are compared is in `differences`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from .fabric.ports import ideal_ports
from .gpu.health import FIELDS as HEALTH_FIELDS
from .gpu.health import KIND as GPU_HEALTH
from .gpu.health import ideal_health
from .image_kinds import FIELDS as IMAGE_FIELDS
from .image_kinds import ideal_image

State = dict[str, Any]

UNKNOWN = "unknown"
"""What an observation says of a thing it was not asked about or could not read."""

VOCABULARY: tuple[str, ...] = (
    "packages",
    "holds",
    "files",
    "json_files",
    "sysctl",
    "optional_sysctl",
    "units",
    "default_target",
    "managers",
    "linger",
    "governor",
    "swap",
    "clock",
    "links",
    "fabric",
    "rails",
    "rdma",
    "firmware",
    "images",
    "containers",
    "snapshots",
    "venvs",
    "groups",
    "driver",
    "cuda",
    "cdi",
    "gpus",
    GPU_HEALTH,
    "distributions",
    "disk_free",
    "ledgers",
    "rulesets",
)
"""Every key a desired state may have, in the order differences are reported."""

_FIELDS: dict[str, frozenset[str]] = {
    # packages: of a source, what comes from it; nothing that could differ, but whoever installs has to know.
    "files": frozenset({"content", "sha256", "secret", "same_as", "mode", "owner", "group", "packages"}),
    "json_files": frozenset({"settings", "whole", "mode", "owner", "group"}),
    "units": frozenset({"enabled", "active", "masked", "if_present"}),
    "links": frozenset({"mtu", "addresses", "up"}),
    "rails": frozenset({"port", "cage", "half", "mtu"}),
    "rdma": frozenset({"speed_mbit", "active_mtu", "address", "link_layer"}),
    "images": IMAGE_FIELDS,
    "containers": frozenset({"image", "running"}),
    "snapshots": frozenset({"repository", "revision", "selection", "contents", "same_as"}),
    "venvs": frozenset({"lock", "packages"}),
    "cuda": frozenset({"version", "compiler"}),
    "cdi": frozenset({"kind"}),
    "ledgers": frozenset({"keeps"}),
    "groups": frozenset({"phase"}),
    "rulesets": frozenset({"loaded"}),
    "firmware": frozenset(),
}
_OWN_FIELDS = {
    "driver": frozenset({"package", "version", "branch", "flavour", "mig", "remove", "kernel_below", "precompiled"}),
    GPU_HEALTH: HEALTH_FIELDS,
}
"""Fields of a thing without a name."""


WHOLE = frozenset({"default_target", "governor", "swap", "clock", "gpus", GPU_HEALTH, "distributions"})
"""Kinds of which a host has one, without a name."""


def root_file(content: str, mode: str = "0644") -> State:
    """A file of this text that belongs to root."""
    return {"content": content, "mode": mode, "owner": "root", "group": "root"}


def root_digest(sha256: str, mode: str = "0644") -> State:
    """A file of root's that is known by its digest: one too long to be carried along with every plan."""
    return {"sha256": sha256, "mode": mode, "owner": "root", "group": "root"}


def root_secret(same_as: str | None = None) -> State:
    """A file only root can read, whose content no plan knows; with `same_as` it must equal that host's."""
    return {"secret": True, "mode": "0600", "owner": "root", "group": "root", "same_as": same_as}


def content_digest(content: str) -> str:
    """The SHA-256 a file with this text has, as the observation reports it."""
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def wanted_digest(want: Mapping[str, Any]) -> str | None:
    """The SHA-256 that a file must have; None where its content is not the plan's to know."""
    if "content" in want:
        return content_digest(want["content"])
    return str(want["sha256"]) if want.get("sha256") else None


def file_mode(mode: object) -> str:
    """A file mode as four octal digits, whether it was written "644", "0644" or 0o644."""
    text = format(mode, "o") if isinstance(mode, int) else str(mode)
    return text.lstrip("0").rjust(4, "0")


def one_spaced(value: object) -> str:
    """A kernel setting with its tabs and runs of spaces made one space, as multi-value settings are read."""
    return " ".join(str(value).split())


def sysctl_path(key: str) -> str:
    """Where the kernel has a setting.

    As sysctl(8) does it: the first separator decides, so that net/ipv4/conf/eth0.1/mtu keeps its dot.
    """
    dot, slash = key.find("."), key.find("/")
    slashed = slash >= 0 and (dot < 0 or slash < dot)
    return f"/proc/sys/{key if slashed else key.replace('.', '/')}"


def peer_digest(path: str, host: str, peers: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The digest that a file has on another host, by that host's observation."""
    entry = ((peers.get(host) or {}).get("files") or {}).get(path) or {}
    digest = entry.get("sha256")
    return str(digest) if digest else None


def wanted_contents(directory: str, want: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]]) -> str:
    """The digest that a model's files must have: the pinned one, else that of the host they must equal; empty for any.

    What a run that leaves that host out does not know of it is compared by a later one.
    """
    there = ((peers.get(str(want.get("same_as"))) or {}).get("snapshots") or {}).get(directory) or {}
    return str(want.get("contents") or there.get("contents") or "")


def check_vocabulary(desired: Mapping[str, Any]) -> None:
    """Refuse a state with a word nobody compares: a misspelt key would otherwise always look right."""
    unknown = sorted(str(key) for key in desired if key not in VOCABULARY)
    if unknown:
        raise ValueError(
            f"desired state has unknown keys {', '.join(unknown)}; known keys are {', '.join(VOCABULARY)}: "
            "correct the spelling or extend the vocabulary"
        )
    for kind, known in _OWN_FIELDS.items():
        strange = sorted(str(field) for field in desired.get(kind) or {} if field not in known)
        if strange:
            raise ValueError(
                f"desired state {kind} has unknown fields {', '.join(strange)}; "
                f"known fields are {', '.join(sorted(known))}: correct the spelling"
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
            if kind == "driver":
                bucket.update(str(items[field]) for field in ("package",) if (items or {}).get(field))
            elif kind not in WHOLE:
                bucket.update(str(name) for name in items or {})
    return {kind: sorted(names) for kind, names in named.items()}


_IDEAL: dict[str, State] = {
    "snapshots": {"verified": True, "reason": ""},
    "venvs": {"exists": True, "finished": True, "changed": []},
    "groups": {"why": "", "missing": {}},
    "rulesets": {"missing": [], "added": [], "error": None},
    "firmware": {"exists": True, "at": "2026-01-01T00:00:00Z", "recorded": {}, "now": {}, "error": None},
}
"""What an observation adds to these kinds of things where all is right."""


def _ideal_contents(
    kind: str, path: str, want: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    return {"contents": wanted_contents(path, want, peers)} if kind == "snapshots" else {}


def ideal(desired: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]] | None = None) -> State:
    """The observation of a host on which `desired` holds exactly: their differences are empty."""
    check_vocabulary(desired)
    observed: State = {"errors": {}, "facts": _ideal_facts(desired)}
    if "packages" in desired:
        observed["packages"] = {
            name: "1" if version is None else version for name, version in desired["packages"].items()
        }
    if "files" in desired:
        observed["files"] = {path: _ideal_file(path, want, peers or {}) for path, want in desired["files"].items()}
    if "sysctl" in desired:
        observed["sysctl"] = {key: one_spaced(value) for key, value in desired["sysctl"].items()}
    if "units" in desired:
        observed["units"] = {
            name: {
                "load": "loaded",
                "enabled": bool(want.get("enabled", False)),
                "active": bool(want.get("active", False)),
                "sub": "running" if want.get("active") else "dead",
                **({"load": "masked"} if want.get("masked") else {}),
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
    if "holds" in desired:
        observed["holds"] = {name: bool(want) for name, want in desired["holds"].items()}
    if "images" in desired:
        observed["images"] = {name: ideal_image(name, want, peers or {}) for name, want in desired["images"].items()}
    if "containers" in desired:
        observed["containers"] = {
            name: {"exists": True, "running": want.get("running", True), "image": want.get("image", "")}
            for name, want in desired["containers"].items()
        }
    for kind, right in _IDEAL.items():
        if kind in desired:
            observed[kind] = {
                path: {**right, **want, **_ideal_contents(kind, path, want, peers or {})}
                for path, want in desired[kind].items()
            }
    if "driver" in desired:
        observed["driver"] = _ideal_driver(desired["driver"])
    if "gpus" in desired:
        observed["gpus"] = _ideal_gpus(desired["gpus"])
    return observed | _ideal_stack(desired) | _ideal_tuning(desired)


def _ideal_stack(desired: Mapping[str, Any]) -> State:
    """What a pinned stack adds (settings in shared files, compilers, descriptions of the GPUs), fabric and GPUs."""
    observed: State = {}
    if "rails" in desired or "rdma" in desired:
        observed["fabric"] = ideal_ports(desired.get("rails") or {}, desired.get("rdma") or {})
    if "json_files" in desired:
        observed["json_files"] = {path: _ideal_json_file(want) for path, want in desired["json_files"].items()}
    if desired.get(GPU_HEALTH):
        observed[GPU_HEALTH] = ideal_health(desired[GPU_HEALTH])
    if "cuda" in desired:
        observed["cuda"] = {
            release: {"exists": True, "release": release, "compiler": None, "version": None, "error": None, **want}
            for release, want in desired["cuda"].items()
        }
    if "cdi" in desired:
        observed["cdi"] = {path: {"exists": True, "waiting": None, "wrong": {}} for path in desired["cdi"]}
    return observed


def _ideal_tuning(desired: Mapping[str, Any]) -> State:
    """What an observation has of these kinds where all is right."""
    observed: State = {}
    if "optional_sysctl" in desired:
        observed["optional_sysctl"] = {key: one_spaced(value) for key, value in desired["optional_sysctl"].items()}
    for kind in ("managers", "linger"):
        if kind in desired:
            observed[kind] = dict(desired[kind])
    if "governor" in desired:
        observed["governor"] = {"policy0": {"governor": desired["governor"], "available": [desired["governor"]]}}
    if "swap" in desired:
        observed["swap"] = []
    if "clock" in desired:
        observed["clock"] = {
            "service": "systemd-timesyncd.service",
            "load": "loaded",
            "enabled": True,
            "active": True,
            "synchronized": True,
        }
    if "ledgers" in desired:
        observed["ledgers"] = {path: {"exists": True, "keeps": [], "error": None} for path in desired["ledgers"]}
    return observed


def _ideal_facts(desired: Mapping[str, Any]) -> State:
    facts: State = dict(desired["distributions"][0]) if desired.get("distributions") else {}
    if "disk_free" in desired:
        facts["disk_free"] = dict(desired["disk_free"])
    return facts


def _ideal_gpus(want: Mapping[str, Any]) -> State:
    count = int(want.get("count", 0))
    return {"count": count, "names": [want.get("name", "")] * count, "driver": None, "error": None}


def _ideal_driver(want: Mapping[str, Any]) -> State:
    version = want.get("version") or f"{want.get('branch') or '1'}.1"
    return {
        "installed": version,
        "loaded": version,
        "library": version,
        "flavour": want.get("flavour"),
        "nouveau": False,
        "mig": {"current": False, "pending": False},
        "mixed": [],
        "error": None,
    }


def _ideal_json_file(want: Mapping[str, Any]) -> State:
    return {
        "exists": True,
        "error": None,
        "settings": dict(want.get("settings") or {}),
        "mode": file_mode(want.get("mode", "0644")),
        "owner": want.get("owner", "root"),
        "group": want.get("group", "root"),
    }


def _ideal_file(path: str, want: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]]) -> State:
    digest = wanted_digest(want) or content_digest("")
    if want.get("same_as"):
        digest = peer_digest(path, want["same_as"], peers) or digest
    return {
        "exists": True,
        "sha256": digest,
        "mode": file_mode(want.get("mode", "0644")),
        "owner": want.get("owner", "root"),
        "group": want.get("group", "root"),
    }
