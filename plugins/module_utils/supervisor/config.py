# SPDX-License-Identifier: Apache-2.0
"""The supervisor's configuration /etc/firstlight/supervisor.json, validated as a whole before anything is done."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..compile_cache import is_cache_path
from ..connection_slots import canonical
from ..serving.completion import reachable
from .model import GroupPlan, Timing, UnitPlan

CONFIG_PATH = "/etc/firstlight/supervisor.json"
VERSION = 1
KINDS = ("unified", "discrete")
REMEDY = "run playbooks/serve.yml, which writes it"

Kind = TypeVar("Kind")


class ConfigError(ValueError):
    """Why the configuration is invalid, in one sentence."""


@dataclass(frozen=True)
class Question:
    """The server to probe for a completion; the URL is empty if the group has none."""

    url: str = ""
    model: str = ""
    key_path: str = ""
    tensor_parallel: int = 1


@dataclass(frozen=True)
class Memory:
    """The memory that must be free before anything starts."""

    kind: str = ""
    """unified: of the machine; discrete: of each GPU; empty: not checked."""
    share: float = 0.0
    gpus: tuple[int, ...] = ()
    """Empty: all of them."""
    overhead_mib: int = 0
    """Memory that a start takes before the engine measures its share: it must be free in addition."""


@dataclass(frozen=True)
class Needs:
    """What a node must have before anything starts."""

    image: str = ""
    image_record: str = ""
    """A JSON file whose `id` is that of the verified image."""
    weights: str = ""
    memory: Memory = field(default_factory=Memory)
    drop_caches: bool = False
    weights_bytes: int = 0
    """Bytes of the weights that the ranks of this node hold; 0 if unknown."""
    compile_cache: str = ""
    """The group's compile cache on this node; empty if it is removed with the containers."""
    token: str = ""
    """The token file with which Ray's nodes authenticate each other; empty without Ray."""


@dataclass(frozen=True)
class GroupConfig:
    """The configuration of one group."""

    plan: GroupPlan
    question: Question = field(default_factory=Question)
    needs: Needs = field(default_factory=Needs)

    @property
    def name(self) -> str:
        return self.plan.name


@dataclass(frozen=True)
class Config:
    """The configuration of one node's supervisor."""

    node: str
    address: str
    head: str
    head_address: str
    port: int
    tokens: Mapping[str, str]
    """The token file of each node: on the head those of all other nodes, on another node its own."""
    addresses: Mapping[str, str]
    """The addresses from which nodes connect; empty if unknown."""
    plan: str
    """A digest of the plan; equal on all nodes of a group that belong together."""
    groups: tuple[GroupConfig, ...]

    @property
    def headed(self) -> tuple[GroupConfig, ...]:
        """Return the groups for which this supervisor decides."""
        return tuple(group for group in self.groups if group.plan.head == self.node)

    @property
    def followed(self) -> tuple[GroupConfig, ...]:
        """Return the groups for which another node's supervisor decides."""
        return tuple(group for group in self.groups if group.plan.head != self.node)

    @property
    def shared(self) -> bool:
        """Whether supervisors of several nodes must communicate."""
        return any(len(group.plan.nodes) > 1 for group in self.groups)


def read_config(path: str) -> Config:
    """Read the configuration from a file. Raises ConfigError."""
    try:
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): {REMEDY}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON ({error}): {REMEDY}") from error
    try:
        return parse_config(document)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}; {REMEDY}") from error


def parse_config(document: object) -> Config:
    """Parse the configuration. Raises ConfigError."""
    root = _mapping(document, "the configuration")
    version = root.get("version")
    if version != VERSION:
        raise ConfigError(f"version is {version!r}, expected {VERSION}: it was written for another supervisor")
    node = _text(root, "node")
    head = _mapping(root.get("head"), "head")
    groups = tuple(_group(entry, node) for entry in _list(root, "groups"))
    config = Config(
        node=node,
        address=_text(root, "address", ""),
        head=_text(head, "name"),
        head_address=_text(head, "address", ""),
        port=_number(head, "port", int, 0),
        tokens={str(name): str(path) for name, path in _mapping(root.get("tokens") or {}, "tokens").items()},
        addresses=_addresses(root.get("addresses") or {}),
        plan=_text(root, "plan", ""),
        groups=groups,
    )
    _evaluate(config)
    return config


def _addresses(entry: object) -> Mapping[str, str]:
    given = _mapping(entry, "addresses")
    try:
        return {str(node): canonical(str(one)) for node, one in given.items()}
    except ValueError as error:
        raise ConfigError(f"addresses has an invalid address ({error}), expected IP addresses by node") from error


def _evaluate(config: Config) -> None:
    """Check what can only be checked across sections."""
    names = [group.name for group in config.groups]
    if not names:
        raise ConfigError("groups is empty, expected at least one group to keep")
    units = [unit.unit for group in config.groups for unit in group.plan.nodes[config.node]]
    for what, listed in (("group", names), ("unit", units)):
        doubled = sorted({name for name in listed if listed.count(name) > 1})
        if doubled:
            raise ConfigError(f"{what} {doubled[0]} is named twice, expected once")
    if not config.shared:
        return
    if not config.head_address:
        raise ConfigError("head.address is empty, expected one: the group has several nodes")
    if not 0 < config.port < 65536:
        raise ConfigError(f"head.port is {config.port}, expected 1 to 65535: the group has several nodes")
    for group in config.groups:
        if len(group.plan.nodes) > 1 and group.plan.head != config.head:
            raise ConfigError(f"group {group.name} is headed by {group.plan.head}, expected {config.head}")
    named = {name for group in config.groups for name in group.plan.nodes}
    lacking = sorted((named - {config.head} if config.node == config.head else {config.node}) - set(config.tokens))
    if lacking:
        raise ConfigError(f"tokens has none for {lacking[0]}, expected one: the group has several nodes")


def _group(entry: object, node: str) -> GroupConfig:
    group = _mapping(entry, "a group")
    name = _text(group, "name")
    head = _text(group, "head")
    nodes = {
        str(one): tuple(_unit(unit, name) for unit in _items(units, f"the units of {one}"))
        for one, units in _mapping(group.get("nodes"), f"nodes of group {name}").items()
    }
    if node not in nodes:
        raise ConfigError(f"group {name} has no node {node}, expected this node among {', '.join(nodes) or 'none'}")
    if head not in nodes:
        raise ConfigError(f"group {name} has no node {head}, expected its head among {', '.join(nodes)}")
    if not any(nodes.values()):
        raise ConfigError(f"group {name} has no unit, expected at least one")
    needs = _needs(_mapping(group.get("needs") or {}, "needs"))
    timing = _timing(group.get("timing") or {}, name)
    return GroupConfig(
        plan=GroupPlan(name, head, nodes, timing, needs.weights_bytes, bool(needs.compile_cache)),
        question=_question(_mapping(group.get("probe") or {}, "probe")),
        needs=needs,
    )


def _unit(entry: object, group: str) -> UnitPlan:
    unit = _mapping(entry, f"a unit of group {group}")
    stage = _number(unit, "stage", int, 0)
    if stage < 0:
        raise ConfigError(f"stage is {stage}, expected 0 or more")
    return UnitPlan(_name(unit, "unit"), stage, _name(unit, "container") if unit.get("container") else "")


def _timing(entry: object, group: str) -> Timing:
    given = _mapping(entry, f"timing of group {group}")
    fields: dict[str, Any] = {one.name: one.default for one in dataclasses.fields(Timing)}
    unknown = sorted(set(given) - set(fields))
    if unknown:
        raise ConfigError(f"timing has {unknown[0]}, expected only {', '.join(fields)}")
    values: dict[str, Any] = {name: _number(given, name, type(fields[name]), 0) for name in given}
    for name, value in values.items():
        if value <= 0:
            raise ConfigError(f"timing.{name} is {value!r}, expected more than 0")
    return Timing(**values)


def _question(probe: Mapping[str, Any]) -> Question:
    url = _text(probe, "url", "")
    if not url:
        return Question()
    try:
        reachable(url)
    except ValueError as error:
        raise ConfigError(f"probe.{error}") from error
    parallel = _number(probe, "tensor_parallel", int, 1)
    return Question(url, _text(probe, "model"), _text(probe, "key_path", ""), parallel)


def _needs(needs: Mapping[str, Any]) -> Needs:
    memory = _mapping(needs.get("memory") or {}, "needs.memory")
    kind = _text(memory, "kind", "")
    share = _number(memory, "share", float, 0.0)
    if kind and kind not in KINDS:
        raise ConfigError(f"needs.memory.kind is {kind!r}, expected one of {', '.join(KINDS)}")
    if not 0 <= share <= 1:
        raise ConfigError(f"needs.memory.share is {share:g}, expected 0 to 1")
    cache, size = _text(needs, "compile_cache", ""), _number(needs, "weights_bytes", int, 0)
    if cache and not is_cache_path(cache):
        # It is emptied after failed starts, so it must not be any other directory.
        raise ConfigError(f"needs.compile_cache is {cache!r}, expected a directory for compile caches")
    if size < 0:
        raise ConfigError(f"needs.weights_bytes is {size}, expected 0 or more")
    early = _number(memory, "overhead_mib", int, 0)
    if early < 0:
        raise ConfigError(f"needs.memory.overhead_mib is {early}, expected 0 or more")
    gpus = memory.get("gpus") or []
    if not isinstance(gpus, list) or not all(isinstance(gpu, int) for gpu in gpus):
        raise ConfigError(f"needs.memory.gpus is {gpus!r}, expected a list of their numbers")
    return Needs(
        image=_text(needs, "image", ""),
        image_record=_text(needs, "image_record", ""),
        weights=_text(needs, "weights", ""),
        memory=Memory(kind, share, tuple(gpus), early),
        drop_caches=bool(needs.get("drop_caches")),
        weights_bytes=size,
        compile_cache=cache,
        token=_text(needs, "token", ""),
    )


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{what} is {_kind(value)}, expected settings by name")
    return value


def _items(value: object, what: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise ConfigError(f"{what} are {_kind(value)}, expected a list")
    return value


def _list(values: Mapping[str, Any], name: str) -> Sequence[object]:
    return _items(values.get(name), name)


def _text(values: Mapping[str, Any], name: str, otherwise: str | None = None) -> str:
    value = values.get(name, otherwise)
    value = otherwise if value is None else value
    if not isinstance(value, str) or (not value and otherwise is None):
        raise ConfigError(f"{name} is {_kind(value)}, expected a string")
    return value


def _name(values: Mapping[str, Any], name: str) -> str:
    """Return a name that is used as a command argument: it must not be mistaken for an option."""
    value = _text(values, name)
    if value.startswith("-") or not all(letter.isalnum() or letter in "-_.@:" for letter in value):
        raise ConfigError(f"{name} is {value!r}, expected letters, digits and -_.@: only")
    return value


def _number(values: Mapping[str, Any], name: str, kind: Callable[[Any], Kind], otherwise: Kind) -> Kind:
    value = values.get(name)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, (int, float)) or kind(value) != value:
        raise ConfigError(f"{name} is {value!r}, expected a number")
    return kind(value)


def _kind(value: object) -> str:
    return "missing" if value is None else "empty" if value == "" else type(value).__name__
