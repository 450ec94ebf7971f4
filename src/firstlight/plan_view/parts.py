# SPDX-License-Identifier: Apache-2.0
"""The named parts of a host's plan, so that hosts or plans can be compared part by part."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Host = Mapping[str, Any]
Part = dict[str, Any]
MOST = 3
"""Maximum number of names on one line; --host shows them all."""


def packages(host: Host) -> Part:
    return _items(host, "packages")


def kernel(host: Host) -> Part:
    return _items(host, "sysctl")


def files(host: Host) -> Part:
    return {**_items(host, "files"), **_items(host, "json_files")}


def units(host: Host) -> Part:
    """Return the units that should be active."""
    return {name: unit for name, unit in _items(host, "units").items() if unit.get("active")}


def images(host: Host) -> Part:
    return _items(host, "images")


def weights(host: Host) -> Part:
    return _items(host, "snapshots")


PARTS: dict[str, Callable[[Host], Part]] = {
    "packages": packages,
    "kernel": kernel,
    "files": files,
    "units": units,
    "image": images,
    "weights": weights,
}


def _items(host: Host, kind: str) -> Part:
    """Merge the items of one kind from all roles; two roles may share a file, such as the cluster's token."""
    return {name: value for state in host["desired"].values() for name, value in (state.get(kind) or {}).items()}


def arguments(argv: Sequence[str]) -> list[str]:
    """Split a command into lines: the program with its first words, each option with its value, other words alone."""
    lines: list[str] = []
    for word in argv:
        program = len(lines) == 1
        if lines and not word.startswith("-") and (program or _takes_value(lines[-1])):
            lines[-1] += f" {shlex.quote(word)}"
        else:
            lines.append(shlex.quote(word))
    return lines


def _takes_value(line: str) -> bool:
    """Return whether the next word may be this option's value: it has none yet, after either a space or `=`."""
    return line.startswith("-") and " " not in line and "=" not in line


def commands(host: Host) -> dict[str, list[str]]:
    """Return the commands of a host by name, split into lines."""
    return {one["name"]: arguments(one["argv"]) for one in host["launch"]}


def differences(hosts: Mapping[str, Host]) -> list[tuple[str, str]]:
    """Return what differs between hosts, a line or two for each kind of item."""
    if len(hosts) < 2:
        return []
    rows: list[tuple[str, str]] = []
    for label, part in PARTS.items():
        found = {name: part(host) for name, host in hosts.items()}
        rows += [(label, text) for text in _differing(found, _OWN.get(label))]
    said = {name: commands(host) for name, host in hosts.items()}
    for command in dict.fromkeys(command for listed in said.values() for command in listed):
        lines = {name: listed[command] for name, listed in said.items() if command in listed}
        rows += [(command, text) for text in _arguments(lines, len(hosts))]
    return rows


_OWN = {
    "packages": "another version",
    "kernel": "another value",
    "files": "contents of its own",
    "units": "another state",
}
"""How items of a kind can differ. Image and weights are identical on all hosts; only their sources differ."""


def _differing(found: Mapping[str, Part], words: str | None) -> list[str]:
    """Return which hosts have an item that others lack, and which items differ in content."""
    first = next(iter(found.values()))
    if all(part == first for part in found.values()):
        return []
    holders: dict[tuple[str, ...], list[str]] = {}
    own: list[str] = []
    for key in dict.fromkeys(key for part in found.values() for key in part):
        having = tuple(name for name, part in found.items() if key in part)
        if len(having) < len(found):
            holders.setdefault(having, []).append(key)
        elif words and any(part[key] != first[key] for part in found.values()):
            own.append(key)
    if len(holders) > 1:
        lines = [f"on some hosts only: {some([key for keys in holders.values() for key in keys])}"]
    else:
        lines = [f"{hosts_words(hosts)} only: {some(keys)}" for hosts, keys in holders.items()]
    return lines + ([f"each host has {words}: {some(own)}"] if own else [])


def _arguments(lines: Mapping[str, Sequence[str]], everybody: int) -> list[str]:
    """Return the arguments of a command that differ between hosts, grouping hosts with the same options."""
    common = set.intersection(*(set(one) for one in lines.values()))
    groups: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for name, listed in lines.items():
        own = [line for line in listed if line not in common]
        groups.setdefault(tuple(_option(line)[0] for line in own), {})[name] = own
    if len(groups) == 1 and not any(groups) and len(lines) == everybody:
        return []
    shown = [
        f"{hosts_words(list(group))}: {_between(list(group.values())) or 'nothing more'}" for group in groups.values()
    ]
    return shown if len(shown) <= MOST else [*shown[:MOST], f"and {len(shown) - MOST} more groups of hosts"]


def _option(line: str) -> tuple[str, str]:
    """Split an option from its value, keeping the separator with the option."""
    mark = "=" if "=" in line else " "
    option, between, value = line.rpartition(mark) if mark in line else (line, "", "")
    return option + between, value


def _between(listed: Sequence[Sequence[str]]) -> str:
    """Join options with the first and last of their values."""
    return " ".join(
        lines[0] if len(set(lines)) == 1 else f"{lines[0]}...{_option(lines[-1])[1]}"
        for lines in zip(*listed, strict=True)
    )


def hosts_words(names: Sequence[str]) -> str:
    """Return the hosts by name; for many hosts, the first and the number of others."""
    return ", ".join(names) if len(names) <= MOST else f"{names[0]} and {len(names) - 1} more hosts"


def some(keys: Sequence[str]) -> str:
    """Return the first of the names, and the number of others."""
    return ", ".join(keys[:MOST]) + (f" and {len(keys) - MOST} more" if len(keys) > MOST else "")
