# SPDX-License-Identifier: Apache-2.0
"""Everything planned for one host: files, units, packages and commands, one per line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import RAY_MARK
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest

from .parts import PARTS, Host, commands
from .summary import LEFT_TO_SSH, decision_words, image_words, pin

Rows = list[tuple[str, str]]


def unknown_host(document: Mapping[str, Any], name: str) -> str:
    """The error message for an unknown host, with a suggestion."""
    return f"the inventory has no host {name!r}: {suggest(name, list(document['hosts']))}"


def heading(host: Host) -> str:
    return f"{host['name']} ({'head' if host['is_head'] else 'worker'}, rank {host['rank']})"


def host_rows(host: Host) -> Rows:
    """Return everything but the commands as rows; a label appears only on the first of its lines."""
    return [row for label, lines in _lines(host) for row in _labelled(label, lines)]


def _labelled(label: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        yield (label if number == 0 else ""), line


def _lines(host: Host) -> Iterator[tuple[str, Iterable[str]]]:
    found = {label: part(host) for label, part in PARTS.items()}
    yield "reached", [_reach(host.get("reach") or {})]
    yield "fabric", (f"{_place(rail)} {rail['address']}, MTU {rail['mtu']}" for rail in host["fabric"])
    yield (
        "packages",
        (f"{name} (as installed)" if not pinned else pin(name, pinned) for name, pinned in found["packages"].items()),
    )
    yield "kernel", (f"{key} = {value}" for key, value in found["kernel"].items())
    yield "files", found["files"]
    yield "units", found["units"]
    yield "image", (_image(*item) for item in found["image"].items())
    yield "weights", (_weights(*item) for item in found["weights"].items())
    yield "expects", (f"{name} {value}" for name, value in (host.get("expected") or {}).items())
    yield "on the host", (f"{one['what']}: {decision_words(one)}" for one in host.get("on_host") or ())


def _reach(reach: Mapping[str, Any]) -> str:
    port = "" if reach.get("port") is None else f" port {reach['port']}"
    return f"{reach.get('user') or LEFT_TO_SSH} at {reach.get('address')}{port}"


def _place(rail: Mapping[str, Any]) -> str:
    """Return the location of a rail: its port and cage, or how its port will be found on the host."""
    if rail["port"]:
        return str(rail["port"]) + ("" if rail["cage"] is None else f" (cage {rail['cage']})")
    cage = "the one cage that has a cable" if rail["cage"] is None else f"cage {rail['cage']}"
    return f"half {rail['half']} of {cage}, found on the host,"


def _image(name: str, want: Mapping[str, Any]) -> str:
    """Describe the pinned image or the recipe it is built from, and what is added to it."""
    ray = name.partition(RAY_MARK)[2]
    told = image_words(str(want.get("reference") or name))
    return told + (f", with Ray {ray} added where it has none" if ray else "")


def _weights(path: str, want: Mapping[str, Any]) -> str:
    """Return the path of the weights, and which of several formats in a repository is downloaded."""
    formats = [str(one["name"]) for one in (want.get("selection") or {}).get("formats") or []]
    return path + (f" (the first available of {', '.join(formats)})" if formats else " (every file)")


def command_lines(host: Host) -> list[tuple[str, list[str]]]:
    """Return each command by name, as lines ready for a shell, followed by the files that it uses."""
    given = {one["name"]: list(one.get("files") or {}) for one in host["launch"]}
    return [
        (name, [f"{line} \\" for line in lines[:-1]] + lines[-1:] + [f"# with {path}" for path in given[name]])
        for name, lines in commands(host).items()
    ]
