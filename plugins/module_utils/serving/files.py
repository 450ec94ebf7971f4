# SPDX-License-Identifier: Apache-2.0
"""The files that describe a serving host, and how to read them without trusting their content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

CONFIG_PATH = "/etc/firstlight/supervisor.json"
STATE_PATH = "/run/firstlight/supervisor.json"
REMEMBERED_PATH = "/var/lib/firstlight/supervisor.json"
PROGRAM_PATH = "/usr/local/lib/firstlight/supervisor.pyz"
REPIN_PATH = "/var/lib/firstlight/repin/journal.json"

SERVING, DRAINED, FAILED = "serving", "drained", "failed"
"""Phases to wait for; all others lead to one of them."""


def read_document(text: str | None, path: str) -> tuple[dict[str, Any] | None, str]:
    """Parse a JSON object; None with the reason if it is invalid, and None without a reason if there is no file."""
    if text is None:
        return None, ""
    try:
        document = json.loads(text)
    except ValueError as error:
        return None, f"{path} is not JSON ({error})"
    if not isinstance(document, dict):
        return None, f"{path} is not a JSON object"
    return document, ""


def groups_of(document: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return the groups of a supervisor's state by name; invalid ones are left out."""
    groups = (document or {}).get("groups")
    if not isinstance(groups, Mapping):
        return {}
    return {str(name): dict(group) for name, group in groups.items() if isinstance(group, Mapping)}


def own_units(config: Mapping[str, Any] | None, node: str) -> dict[str, str]:
    """Return the units in the groups of this node's supervisor, each with its container's name or an empty string."""
    found: dict[str, str] = {}
    for group in _configured(config):
        nodes = group.get("nodes")
        for unit in (nodes.get(node) or ()) if isinstance(nodes, Mapping) else ():
            if isinstance(unit, Mapping) and unit.get("unit"):
                found[str(unit["unit"])] = str(unit.get("container") or "")
    return found


def asked_ports(config: Mapping[str, Any] | None, node: str) -> list[int]:
    """Return the ports on which the servers of this node are probed."""
    found = []
    for group in _configured(config):
        url = (group.get("probe") or {}).get("url") if group.get("head") == node else None
        try:
            port = urlsplit(str(url or "")).port
        except ValueError:
            port = None
        if port:
            found.append(port)
    return sorted(set(found))


def memory_wants(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Combine the memory needs of a host's groups: {"kind", "share", "gpus"}, or {} if none states any."""
    wants: dict[str, Any] = {}
    for group in _configured(config):
        memory = (group.get("needs") or {}).get("memory")
        if not isinstance(memory, Mapping) or not isinstance(memory.get("share"), (int, float)):
            continue
        wants = {
            "kind": str(memory.get("kind") or "unified"),
            "share": max(float(memory["share"]), wants.get("share", 0.0)),
            "gpus": sorted({*wants.get("gpus", ()), *(int(one) for one in memory.get("gpus") or ())}),
        }
    return wants


def told(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Summarise a supervisor's configuration for an operator: the head, and for each group its nodes and its model."""
    if not config:
        return {}
    groups = {}
    for group in _configured(config):
        probe = group.get("probe") if isinstance(group.get("probe"), Mapping) else {}
        nodes = group.get("nodes") if isinstance(group.get("nodes"), Mapping) else {}
        groups[str(group.get("name") or "")] = {
            "head": str(group.get("head") or ""),
            "nodes": [str(node) for node in nodes or ()],
            "url": str((probe or {}).get("url") or ""),
            "model": str((probe or {}).get("model") or ""),
            "tensor_parallel": (probe or {}).get("tensor_parallel"),
        }
    head = config.get("head")
    return {
        "node": str(config.get("node") or ""),
        "head": str(head.get("name") or "") if isinstance(head, Mapping) else "",
        "groups": groups,
    }


def _configured(config: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    groups = (config or {}).get("groups")
    return [group for group in groups if isinstance(group, Mapping)] if isinstance(groups, list) else []
