# SPDX-License-Identifier: Apache-2.0
"""Read the interfaces of the roles: their defaults and all their variables, from the roles' own files.

The plan starts from these, so that each default is defined once and a misspelt role variable can be reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml

TRUTH = {**dict.fromkeys(("true", "yes", "on", "1"), True), **dict.fromkeys(("false", "no", "off", "0"), False)}


@dataclass(frozen=True)
class RoleInterface:
    """A role's plain (untemplated) defaults and all its variables."""

    defaults: dict[str, Any] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    options: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The argument specification of each variable: type, choices and so on."""

    def read(self, name: str, value: Any) -> Any:
        """Convert a value to the type of the role's variable."""
        return converted(str(self.options.get(name, {}).get("type")), value)


def converted(kind: str, value: Any) -> Any:
    """Convert a value as Ansible does when a role starts: `-e x=1` always gives a string."""
    if kind == "bool" and type(value) is int and value in (0, 1):
        return bool(value)
    if not isinstance(value, str):
        return value
    text = value.strip()
    if kind == "int" and text.removeprefix("-").isdecimal():
        return int(text)
    if kind == "float" and text.removeprefix("-").replace(".", "", 1).isdecimal():
        return float(text)
    if kind == "bool" and text.lower() in TRUTH:
        return TRUTH[text.lower()]
    return value


def load_roles(directory: str | Path, names: Iterable[str]) -> dict[str, RoleInterface]:
    """Return the interface of each named role under `directory`; empty for a role that does not exist."""
    return {name: _load_role(Path(directory) / name) for name in names}


def _load_role(role: Path) -> RoleInterface:
    defaults = _load(role / "defaults" / "main.yml")
    specs = _load(role / "meta" / "argument_specs.yml").get("argument_specs") or {}
    options: dict[str, Any] = {}
    for spec in specs.values():
        options |= (spec or {}).get("options") or {}
    plain = {name: value for name, value in defaults.items() if not _is_template(value)}
    return RoleInterface(
        plain, frozenset({*defaults, *options}), {name: option or {} for name, option in options.items()}
    )


def _is_template(value: object) -> bool:
    """Return whether a default needs templating by Ansible; the plan leaves those to the role."""
    if isinstance(value, dict):
        return any(_is_template(one) for one in value.values())
    if isinstance(value, list):
        return any(_is_template(one) for one in value)
    return isinstance(value, str) and "{{" in value


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = load_yaml(path)
    return content if isinstance(content, dict) else {}
