# SPDX-License-Identifier: Apache-2.0
"""The desired state of a node's supervisor: its program, its configuration, and the unit that runs it.

The units of the engine never start by themselves: the supervisor starts them, in order and on all nodes, and stops all
of them when one of them ends (docs/serving.md).
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    RAY_UNIT,
    SUPERVISOR_UNIT,
    TOKEN_PATH,
    UNIT_DIRECTORY,
    supervisor_token_path,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import is_local_name, record_path
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import PROGRAM_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import (
    root_digest,
    root_file,
    root_secret,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import CONFIG_PATH, parse_config
from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import DRIVER_UNITS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import program_digest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.templates import render

UNIT_PATH = f"{UNIT_DIRECTORY}/{SUPERVISOR_UNIT}"
PYTHON = "/usr/bin/python3"
SHORTEST_HEARTBEAT_TIMEOUT = 5

_TIMING = (
    "start_timeout",
    "progress_timeout",
    "stage_timeout",
    "stop_timeout",
    "heartbeat_timeout",
    "probe_interval",
    "probe_timeout",
    "failure_threshold",
    "backoff",
    "max_backoff",
    "start_attempts",
    "stable_after",
)
"""Role variables with times and counts that apply to every group; they have the names of the fields."""

DEFAULTS: dict[str, Any] = {
    "supervisor_addresses": {},
    "supervisor_port": 29600,
    "supervisor_image": "",
    "supervisor_weights": "",
    "supervisor_memory_kind": "discrete",
    "supervisor_memory_share": 0.85,
    "supervisor_memory_overhead": 0,
    "supervisor_drop_caches": True,
    "supervisor_weights_bytes": 0,
    "supervisor_compile_cache": "",
    "supervisor_start_timeout": 900,
    "supervisor_progress_timeout": 900,
    "supervisor_stage_timeout": 180,
    "supervisor_stop_timeout": 120,
    "supervisor_heartbeat_timeout": 20,
    "supervisor_probe_interval": 15,
    "supervisor_probe_timeout": 60,
    "supervisor_failure_threshold": 2,
    "supervisor_backoff": 5,
    "supervisor_max_backoff": 300,
    "supervisor_start_attempts": 5,
    "supervisor_stable_after": 600,
}
"""The role's defaults, for a plan that leaves them out."""


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the program, its configuration, the running unit, and every group of this node serving."""
    settings = {**DEFAULTS, **variables}
    document = config(settings)
    files = {
        PROGRAM_PATH: root_digest(program_digest("supervisor")),
        CONFIG_PATH: root_file(config_text(document)),
        UNIT_PATH: root_file(unit(document)),
    }
    is_head = document["node"] == document["head"]["name"]
    for path in document["tokens"].values():
        files[path] = root_secret(same_as=None if is_head else document["head"]["name"])
    return {
        "files": files,
        "units": {SUPERVISOR_UNIT: {"enabled": True, "active": True}},
        "groups": {str(group["name"]): {"phase": "serving"} for group in document["groups"]},
    }


def config_text(document: Mapping[str, Any]) -> str:
    """Return the document with an indent of two. Parts that all nodes share, most of it, are formatted once."""
    texts = {name: json.dumps(part) for name, part in document.items()}
    parts = (f'  "{name}": {_laid_out(text) if text[0] in "[{" else text}' for name, text in texts.items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


@functools.lru_cache(maxsize=16)
def _laid_out(part: str) -> str:
    return json.dumps(json.loads(part), indent=2).replace("\n", "\n  ")


def config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of this node's supervisor; within a group, only name, address and tokens differ."""
    head = {
        "name": str(settings["supervisor_head_host"]),
        "address": str(settings["supervisor_head_address"]),
        "port": int(settings["supervisor_port"]),
    }
    if _number("supervisor_heartbeat_timeout", settings) < SHORTEST_HEARTBEAT_TIMEOUT:
        raise ValueError(
            f"supervisor_heartbeat_timeout is {settings['supervisor_heartbeat_timeout']}, expected "
            f"{SHORTEST_HEARTBEAT_TIMEOUT} or more: supervisors report every two seconds, and one missed report "
            "does not mean that a node is gone"
        )
    groups = [_group(one, settings) for one in _listed(settings["supervisor_groups"])]
    document = {
        "version": 1,
        "node": str(settings["supervisor_node"]),
        "address": str(settings["supervisor_address"]),
        "head": head,
        "tokens": {},
        "addresses": dict(settings["supervisor_addresses"]),
        "plan": shared_digest(head, groups),
        "groups": groups,
    }
    if spans_nodes(document):
        named = dict.fromkeys(name for group in groups for name in group["nodes"] if name != head["name"])
        own = str(document["node"])
        document["tokens"] = {name: supervisor_token_path(name) for name in (named if own == head["name"] else [own])}
    else:
        # No other node connects to it.
        head["port"] = 0
        del document["addresses"]
    # The program would refuse it too, but only on the host and after everything else.
    parse_config(document)
    return document


def shared_digest(head: Mapping[str, Any], groups: Sequence[Mapping[str, Any]]) -> str:
    """Return the digest of what must be the same on all nodes: group membership, and what is served.

    The memory a node must have free, and the timeouts, may differ between hosts.
    """
    shared = {
        "head": dict(head),
        "groups": [
            {
                **{key: group[key] for key in ("name", "head", "nodes", "probe")},
                **{key: group["needs"][key] for key in ("image", "weights")},
            }
            for group in groups
        ],
    }
    return hashlib.sha256(json.dumps(shared, sort_keys=True).encode("utf-8")).hexdigest()


def spans_nodes(document: Mapping[str, Any]) -> bool:
    """Whether any group spans more than one node."""
    return any(len(group["nodes"]) > 1 for group in document["groups"])


def unit(document: Mapping[str, Any]) -> str:
    """Render the unit file."""
    containers = any(one.get("container") for group in document["groups"] for one in group["nodes"][document["node"]])
    after = ["network-online.target", *(["docker.service"] if containers else []), *DRIVER_UNITS]
    return render(
        "supervisor",
        "supervisor.service",
        after=after,
        argv=[PYTHON, "-I", PROGRAM_PATH, "--config", CONFIG_PATH],
        identifier=SUPERVISOR_UNIT.removesuffix(".service"),
    )


def _listed(groups: object) -> list[Mapping[str, Any]]:
    if not isinstance(groups, (list, tuple)) or not groups or not all(isinstance(one, Mapping) for one in groups):
        raise ValueError(
            f"supervisor_groups is {groups!r}, expected a list of groups, each with name, nodes and probe: "
            "see roles/supervisor/README.md"
        )
    return list(groups)


def _group(group: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return one group as the program reads it, with the settings that all groups of a node share."""
    known = {"name", "nodes", "probe", "gpus", "cache"}
    if not {"name", "nodes"} <= set(group) <= known:
        raise ValueError(
            f"a group of supervisor_groups has {', '.join(sorted(map(str, group)))}, expected name and nodes, and "
            "optionally probe, gpus and cache: correct the group"
        )
    node = str(settings["supervisor_node"])
    if not isinstance(group["nodes"], Mapping) or not group["nodes"].get(node):
        raise ValueError(
            f"group {group['name']} has no unit on {node}, expected one: "
            "give the supervisor only the groups of its node"
        )
    return {
        "name": str(group["name"]),
        "head": str(settings["supervisor_head_host"]),
        "nodes": {str(name): [_unit(one) for one in units] for name, units in group["nodes"].items()},
        "timing": {name: _number(f"supervisor_{name}", settings) for name in _TIMING},
        "probe": dict(group.get("probe") or {}),
        "needs": {
            **_image(str(settings["supervisor_image"])),
            "weights": str(settings["supervisor_weights"]),
            "memory": _memory(group, settings),
            "drop_caches": bool(settings["supervisor_drop_caches"]),
            "weights_bytes": int(settings["supervisor_weights_bytes"]),
            "compile_cache": _cache(group, settings),
            **({"token": TOKEN_PATH} if any(one["unit"] == RAY_UNIT for one in group["nodes"][node]) else {}),
        },
    }


def _number(name: str, settings: Mapping[str, Any]) -> int | float:
    """Convert a number, also from text, as `-e name=3` gives it."""
    try:
        value = float(settings[name])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is {settings[name]!r}, expected a number: correct it") from error
    return int(value) if value.is_integer() else value


def _unit(one: Mapping[str, Any]) -> dict[str, Any]:
    return {"unit": str(one["unit"]), "stage": int(one.get("stage", 0)), "container": str(one.get("container") or "")}


def _image(name: str) -> dict[str, str]:
    """Return the image by name, and the file that recorded its id when it was verified."""
    return {"image": name} | ({"image_record": record_path(name)} if is_local_name(name) else {})


def _cache(group: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return the group's compile cache; `cache` is its part of a directory that the node's groups share."""
    path, own = str(settings["supervisor_compile_cache"]), str(group.get("cache") or "")
    return f"{path}/{own}" if path and own else path


def _memory(group: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    kind, share = str(settings["supervisor_memory_kind"]), float(settings["supervisor_memory_share"])
    if share == 0:
        return {}
    memory: dict[str, Any] = {"kind": kind, "share": share}
    early = int(_number("supervisor_memory_overhead", settings))
    memory |= {"overhead_mib": early} if early else {}
    return memory | ({"gpus": [int(one) for one in group["gpus"]]} if group.get("gpus") else {})
