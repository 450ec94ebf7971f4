# SPDX-License-Identifier: Apache-2.0
"""The observation of a host on which a desired state holds exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.ports import ROCE_V2, Port, empty_port
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.check import make_check
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import KIND as GPU_HEALTH
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import expected_by
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import words_of
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import (
    State,
    check_vocabulary,
    content_digest,
    file_mode,
    one_spaced,
    peer_digest,
    wanted_digest,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import PASS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.weights_kinds import wanted_contents

_IDEAL: dict[str, State] = {
    "snapshots": {"verified": True, "reason": ""},
    "venvs": {"exists": True, "finished": True, "differing": {}, "changed": []},
    "groups": {"why": "", "missing": {}},
    "rulesets": {"missing": [], "added": [], "error": None},
    "firmware": {"exists": True, "at": "2026-01-01T00:00:00Z", "recorded": {}, "now": {}, "error": None},
}


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
        observed["images"] = {name: _ideal_image(name, want, peers or {}) for name, want in desired["images"].items()}
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
        observed[GPU_HEALTH] = _ideal_health(desired[GPU_HEALTH])
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


def _ideal_image(name: str, want: Mapping[str, Any], peers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What an observation has of an image that is right."""
    head = ((peers.get(str(want.get("same_as"))) or {}).get("images") or {}).get(name) or {}
    identity = head.get("id") or f"sha256:{'0' * 64}"
    record = {
        "id": identity,
        "image": want.get("reference"),
        "name": name,
        "requires": words_of(want.get("requires") or {}),
    }
    return {"exists": True, "id": identity, "record": record if want.get("reference") else None}


def ideal_ports(rails: Mapping[str, Mapping[str, Any]], rdma: Mapping[str, Mapping[str, Any]]) -> dict[str, Port]:
    """The ports of a host on which these rails and RDMA devices are as they should be."""
    ports: dict[str, Port] = {}
    for rail in rails.values():
        cage, half = rail.get("cage"), int(rail.get("half") or 0)
        if not rail.get("port") and cage is None:
            cage = 0
        name = str(rail.get("port") or f"cage{cage}half{half}")
        ports[name] = empty_port() | {"port": name, "carrier": True, "mtu": rail.get("mtu"), "cage": cage, "half": half}
    for name, want in rdma.items():
        ports[name] = ports.get(name, empty_port()) | {
            "port": name,
            "carrier": True,
            "speed_mbit": want.get("speed_mbit"),
            "rdma_device": f"rdma-{name}",
            "rdma_port": 1,
            "rdma_state": "ACTIVE",
            "link_layer": want.get("link_layer") or "Ethernet",
            "active_mtu": want.get("active_mtu"),
            "gids": [{"index": 3, "address": want["address"], "type": ROCE_V2}] if want.get("address") else [],
        }
    return ports


def _ideal_health(want: Mapping[str, Any]) -> dict[str, Any]:
    """The observation of a host whose GPUs are right."""
    expected = expected_by(want)
    told = make_check("gpu.count", PASS, expected.gpus, expected.gpus)
    return {"checks": [told], "topology": None, "serving": False}
