# SPDX-License-Identifier: Apache-2.0
"""Compare two plans, given as the documents that `--json` prints. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .parts import PARTS, Host, commands

Document = Mapping[str, Any]
Change = dict[str, Any]

_NO_SETTINGS = ("hosts",)
_STARTUP = ("limit_s", "limit_from", "progress_timeout_s")
_MEMORY = ("total_bytes", "weights_bytes", "activation_bytes", "runtime_bytes", "kv_bytes", "os_bytes", "free_bytes")
_FIT = ("fits", "utilisation", "kv_tokens", "max_concurrency", "context", "max_num_seqs")
_SPEED = (
    "tensor_parallel",
    "replicas",
    "tokens_per_s",
    "tokens_per_s_per_stream",
    "ttft_ms",
    "cost_per_million_tokens",
)
_OF_A_HOST = ("rank", "is_head", "reach", "rack", "fabric", "expected", "on_host")


def changes(old: Document, new: Document) -> dict[str, Any]:
    """Return the differences of the new plan, as empty lists where there are none."""
    before, after = old.get("hosts") or {}, new.get("hosts") or {}
    return {
        "settings": [*_values(_settings(old), _settings(new))],
        "hosts_added": [name for name in after if name not in before],
        "hosts_removed": [name for name in before if name not in after],
        "hosts": [] if new.get("errors") else _hosts(before, after),  # a refused plan has no valid hosts
        "memory": [*_values(_memory(old), _memory(new))],
        "speed": [*_values(_speed(old), _speed(new))],
        **{
            kind: _list_changes(old.get(kind) or (), new.get(kind) or ())
            for kind in ("errors", "missing_inputs", "notes")
        },
    }


def _values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield {"name": name, "from": old.get(name), "to": new.get(name)}


def _settings(document: Document) -> dict[str, Any]:
    cluster = {name: value for name, value in (document.get("cluster") or {}).items() if name not in _NO_SETTINGS}
    startup = document.get("startup") or {}
    return {**cluster, **(document.get("served") or {}), **{name: startup.get(name) for name in _STARTUP}}


def _memory(document: Document) -> dict[str, Any]:
    fit = document.get("fit") or {}
    return {name: fit.get(name) for name in _FIT} | {name: (fit.get("memory") or {}).get(name) for name in _MEMORY}


def _speed(document: Document) -> dict[str, Any]:
    expected = document.get("expected") or {}
    found = {f"one request: {name}": expected.get(name) for name in ("decode_tokens_per_s", "at_full_context")}
    for one in document.get("advice") or ():
        found |= {f"{one['workload']}: {name}": one.get(name) for name in _SPEED}
    return found


def _hosts(before: Mapping[str, Host], after: Mapping[str, Host]) -> list[Change]:
    """Return the changes of the hosts, grouping hosts with identical changes."""
    groups: dict[str, Change] = {}
    for name in (name for name in after if name in before):
        found = _host(before[name], after[name])
        if found:
            groups.setdefault(json.dumps(found, sort_keys=True), {"hosts": [], **found})["hosts"].append(name)
    return list(groups.values())


def _host(old: Host, new: Host) -> Change:
    found: Change = {}
    own = [*_values({name: old.get(name) for name in _OF_A_HOST}, {name: new.get(name) for name in _OF_A_HOST})]
    if own:
        found["host"] = own
    for label, part in PARTS.items():
        was, wanted = part(old), part(new)
        if was != wanted:
            found[label] = {
                "added": sorted(wanted.keys() - was.keys()),
                "removed": sorted(was.keys() - wanted.keys()),
                "changed": [
                    _changed(label, key, was[key], wanted[key])
                    for key in wanted
                    if key in was and was[key] != wanted[key]
                ],
            }
    said, says = commands(old), commands(new)
    if said != says:
        found["commands"] = {
            name: _list_changes(said.get(name, ()), says.get(name, ()))
            for name in dict.fromkeys([*said, *says])
            if said.get(name) != says.get(name)
        }
    return found


def _changed(label: str, key: str, old: Any, new: Any) -> str:
    """Describe an item in both plans, with its values if they are short, as versions and kernel settings are."""
    return f"{key}: {old} -> {new}" if label in ("packages", "kernel") else key


def _list_changes(old: Sequence[Any], new: Sequence[Any]) -> dict[str, list[Any]]:
    return {"added": [one for one in new if one not in old], "removed": [one for one in old if one not in new]}


def rows(found: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Render the changes as headings with lines."""
    listed: list[tuple[str, list[str]]] = [
        ("Settings", _value_lines(found["settings"])),
        ("Hosts added", list(found["hosts_added"])),
        ("Hosts removed", list(found["hosts_removed"])),
        *((f"On {', '.join(one['hosts'])}", _host_lines(one)) for one in found["hosts"]),
        ("Memory of each GPU", _value_lines(found["memory"])),
        ("Speed and cost", _value_lines(found["speed"])),
    ]
    for kind, words in (("errors", "Errors"), ("missing_inputs", "Missing inputs"), ("notes", "Notes")):
        signs = [("+", one) for one in found[kind]["added"]] + [("-", one) for one in found[kind]["removed"]]
        listed.append((words, [f"{sign} {one if isinstance(one, str) else one['found']}" for sign, one in signs]))
    return [(words, lines) for words, lines in listed if lines]


def _value_lines(listed: Sequence[Change]) -> list[str]:
    return [f"{one['name']}: {_value(one['name'], one['from'])} -> {_value(one['name'], one['to'])}" for one in listed]


def _value(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{value / 2**30:.1f} GiB"
    return value if isinstance(value, str) else json.dumps(value)


def _host_lines(one: Change) -> list[str]:
    lines = _value_lines(one.get("host") or ())
    for label in PARTS:
        part = one.get(label) or {}
        lines += [f"{label}: + {name}" for name in part.get("added", ())]
        lines += [f"{label}: - {name}" for name in part.get("removed", ())]
        lines += [f"{label}: ~ {name}" for name in part.get("changed", ())]
    for command, part in (one.get("commands") or {}).items():
        lines += [f"{command}: - {line}" for line in part["removed"]] + [
            f"{command}: + {line}" for line in part["added"]
        ]
    return lines
