# SPDX-License-Identifier: Apache-2.0
"""Check the role variables of an inventory against the types in the roles' argument specifications.

Ansible validates them only when a role starts, by which time the first hosts have been changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import (
    SECRET_ENDINGS,
    HostIntent,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import RoleInterface, converted

ERRORS = {
    "role.value": "A role refuses a value of the wrong type when it starts, and hosts may have been changed by then.",
}

Option = Mapping[str, Any]

_KINDS = {
    "bool": ("true or false", "write true or false, without quotes"),
    "int": ("a whole number", "write a number, without quotes"),
    "float": ("a number", "write a number, without quotes"),
    "str": ("a string", "write one value, as a string"),
    "path": ("a path", "write one path, as a string"),
    "list": ("a list", "write it as a YAML list, as [a, b]"),
    "dict": ("a mapping", "write it as a YAML mapping, its keys indented below it"),
}


def check_role_values(hosts: Sequence[HostIntent], roles: Mapping[str, RoleInterface], errors: PlanErrors) -> None:
    """Refuse every value that the role would refuse; one that several hosts share is reported once."""
    options = {name: option for role in roles.values() for name, option in role.options.items()}
    seen: set[tuple[str, str]] = set()
    for host in hosts:
        for name in host.variables.keys() & options.keys():
            value = host.variables[name]
            if (name, repr(value)) in seen:
                continue
            seen.add((name, repr(value)))
            secret = name.endswith(SECRET_ENDINGS) or bool(options[name].get("no_log"))
            for where, found, rule, remedy in _wrong(name, value, options[name]):
                shown = "is a value that is not shown" if secret and not found.startswith("has ") else found
                errors.add("role.value", f"{where} of {host.name} {shown}", rule, remedy)


def _wrong(where: str, value: Any, option: Option) -> Iterator[tuple[str, str, str, str]]:
    """Yield each problem of a value: where, what was found, the rule, and the remedy."""
    kind = str(option.get("type") or "str")
    if kind == "raw":
        return
    expected, remedy = _KINDS[kind]
    read = converted(kind, value)
    if value is None:
        yield where, "has no value", f"it is {expected}", f"{remedy}, or take the line out"
    elif not _is(kind, read):
        yield where, f"is {value!r}", f"it is {expected}", remedy
    elif option.get("choices") and read not in option["choices"]:
        listed = [str(choice) for choice in option["choices"]]
        yield where, f"is {value!r}", f"it is one of {', '.join(listed)}", suggest(str(value), listed)
    elif kind == "list":
        each = {"type": option.get("elements") or "raw", "options": option.get("options")}
        for number, one in enumerate(read):
            yield from _wrong(f"{where}[{number}]", one, each)
    elif kind == "dict" and option.get("options"):
        known: Mapping[str, Option] = option["options"]
        for key, one in read.items():
            if key not in known:
                rule = f"it has the keys {', '.join(known)}; any other key would silently do nothing"
                yield where, f"has a key {key!r}", rule, suggest(str(key), known)
            elif one is not None:
                yield from _wrong(f"{where}.{key}", one, known[key])


def _is(kind: str, value: Any) -> bool:
    if kind in ("str", "path"):
        return isinstance(value, (str, int, float))
    if kind in ("int", "float"):
        return isinstance(value, int if kind == "int" else (int, float)) and not isinstance(value, bool)
    if kind == "list":
        return isinstance(value, (list, tuple))
    return isinstance(value, bool if kind == "bool" else Mapping)
