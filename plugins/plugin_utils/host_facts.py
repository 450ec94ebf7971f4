# SPDX-License-Identifier: Apache-2.0
"""What filters over several hosts read from `hostvars`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def names_of(hosts: object, hostvars: object, usage: str) -> list[str]:
    """The names, of a filter that is used as `usage` says; raises TypeError where it is used otherwise."""
    if isinstance(hosts, str) or not isinstance(hosts, Iterable) or not isinstance(hostvars, Mapping):
        raise TypeError(
            f"this takes host names and hostvars, found {type(hosts).__name__} and {type(hostvars).__name__}: "
            f"write `{usage}`"
        )
    return [str(name) for name in hosts]


def facts_of(hosts: object, hostvars: Any, facts: Mapping[str, str], usage: str) -> dict[str, dict[str, Any]]:
    """By host, those of these facts that it has, under their short names."""
    found: dict[str, dict[str, Any]] = {}
    for name in names_of(hosts, hostvars, usage):
        variables = hostvars[name]
        found[name] = {short: variables[fact] for short, fact in facts.items() if fact in variables}
    return found


def value_at(variables: Any, path: str) -> Any:
    """What stands at a path of names with dots between them; None where nothing does."""
    value = variables
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value
