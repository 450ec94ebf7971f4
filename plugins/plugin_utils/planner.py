# SPDX-License-Identifier: Apache-2.0
"""The plan: intent and catalog in, one document a host out. Pure; no host is contacted.

Whatever can be known wrong before a host is touched is refused here, all of it at once, each refusal with
what was found, the rule, and what to change.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import ROLES, desired_state
from ansible_collections.firstlight.cluster.plugins.plugin_utils.addressing import (
    AddressingError,
    host_address,
    overlapping,
    parse_subnet,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import RoleInterface

Refusal = dict[str, str]
Plan = dict[str, Any]

MTU_LEAST, MTU_MOST = 1280, 9216
MODEL_ROOT = "/var/lib/firstlight/models"
WEIGHTS_ENDPOINT = "https://huggingface.co"

INTENT_KEYS = (
    "firstlight_hardware",
    "firstlight_stack",
    "firstlight_model",
    "firstlight_model_revision",
    "firstlight_model_root",
    "firstlight_image",
    "firstlight_weights_endpoint",
    "firstlight_fabric",
    "firstlight_serving",
    "firstlight_catalog",
    "firstlight_full",
)
"""Every variable an operator writes intent in."""

_REQUIRED = ("firstlight_hardware", "firstlight_stack", "firstlight_model")
_FABRIC_KEYS = ("mtu", "rails", "rdma")
_RAIL_KEYS = ("port", "subnet")
_SERVING_KEYS = (
    "tensor_parallel",
    "gpu_memory_utilization",
    "max_model_len",
    "port",
    "listen",
    "served_name",
    "start_timeout",
    "flags",
)
_PLANNED_FLAGS = {
    "--tensor-parallel-size": "firstlight_serving.tensor_parallel",
    "-tp": "firstlight_serving.tensor_parallel",
    "--gpu-memory-utilization": "firstlight_serving.gpu_memory_utilization",
    "--max-model-len": "firstlight_serving.max_model_len",
    "--host": "firstlight_serving.listen",
    "--port": "firstlight_serving.port",
    "--served-model-name": "firstlight_serving.served_name",
    "--model": "firstlight_model",
    "--distributed-executor-backend": "the number of hosts in the inventory",
    "--nnodes": "the number of hosts in the inventory",
    "-n": "the number of hosts in the inventory",
    "--node-rank": "the order of hosts in the inventory",
    "-r": "the order of hosts in the inventory",
    "--master-addr": "firstlight_fabric",
    "--master-port": "firstlight_fabric",
    "--headless": "the group head of the inventory",
    "--api-key": "the key file the role generates (a key never stands in a command line)",
}
"""Flags the plan or the role writes, and where their value comes from."""

_CLUSTER_WIDE = (
    "inference_image_reference",
    "model_weights_repository",
    "model_weights_revision",
    "model_weights_directory",
    "ray_cluster_port",
)
"""Role variables that must not differ between the hosts of a cluster."""

_SHARED_SECRETS = ("ray_cluster_token",)
"""Secrets that must not differ between the hosts of a cluster."""

_SECRET_ENDINGS = ("_token", "_api_key", "_password", "_secret")
"""How role variables are named that never enter a plan; the role reads them itself."""

_DIGEST_REFERENCE = re.compile(r"[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")
_REVISION = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HostIntent:
    """A host of the inventory: its name, whether it is in group head, and what is set for it.

    `intent` holds its firstlight_* variables, `variables` its role variables; both as the inventory has them.
    """

    name: str
    is_head: bool = False
    intent: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rail:
    """One rail of the fabric: the port it is on in every host, and its subnet."""

    port: str
    subnet: str


@dataclass(frozen=True)
class Choices:
    """Everything that was decided for the whole cluster."""

    hosts: tuple[HostIntent, ...]
    head: HostIntent
    hardware: Mapping[str, Any]
    stack: Mapping[str, Any]
    model: Mapping[str, Any]
    rails: tuple[Rail, ...]
    mtu: int
    rdma: bool
    image: str
    revision: str
    serving: Mapping[str, Any]
    intent: Mapping[str, Any]
    roles: Mapping[str, RoleInterface]


class _Refusals:
    """Refusals as they are found."""

    def __init__(self) -> None:
        self.found: list[Refusal] = []

    def add(self, identifier: str, found: str, rule: str, remedy: str) -> None:
        self.found.append({"id": identifier, "found": found, "rule": rule, "remedy": remedy})


def build_plan(
    intent: Mapping[str, Any],
    catalog: Mapping[str, Mapping[str, Mapping[str, Any]]],
    hosts: Sequence[HostIntent],
    roles: Mapping[str, RoleInterface] | None = None,
) -> dict[str, Plan]:
    """A plan for every host, or for every host the same list of refusals and nothing to do."""
    refusals = _Refusals()
    _check_intent(intent, hosts, refusals)
    _check_role_variables(hosts, roles or {}, refusals)
    choices = _choose(intent, catalog, hosts, roles or {}, refusals)
    plans: dict[str, Plan] = {}
    if choices is not None and not refusals.found:
        plans = {host.name: _host_plan(choices, index, refusals) for index, host in enumerate(choices.hosts)}
    if refusals.found:
        unique = list({tuple(refusal.items()): refusal for refusal in refusals.found}.values())
        return {host.name: _refused(host, hosts, unique) for host in hosts}
    return plans


def explain_refusals(refusals: Iterable[Mapping[str, str]]) -> str:
    """All refusals as one message for an operator."""
    listed = list(refusals)
    count = "1 thing" if len(listed) == 1 else f"{len(listed)} things"
    lines = [f"The plan is refused, no host was touched; {count} to change:"]
    for number, refusal in enumerate(listed, 1):
        lines += [
            f"{number}. {refusal['found']} [{refusal['id']}]",
            f"   rule: {refusal['rule']}",
            f"   change: {refusal['remedy']}",
        ]
    return "\n".join(lines)


def _refused(host: HostIntent, hosts: Sequence[HostIntent], refusals: list[Refusal]) -> Plan:
    heads = [one.name for one in hosts if one.is_head]
    return {
        "cluster": {
            "head": heads[0] if len(heads) == 1 else None,
            "hosts": [one.name for one in hosts],
            "size": len(hosts),
        },
        "host": {"name": host.name, "is_head": host.is_head},
        "roles": {},
        "desired": {},
        "refusals": refusals,
    }


# --- intent -------------------------------------------------------------------------------------------------


def _suggest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"


def _check_keys(value: Mapping[str, Any], known: Sequence[str], where: str, refusals: _Refusals) -> None:
    for key in value:
        if key not in known:
            refusals.add(
                "intent.unknown-key",
                f"{where} has a key {key!r}",
                f"{where} knows {', '.join(known)}; any other key would silently do nothing",
                _suggest(str(key), known),
            )


def _check_intent(intent: Mapping[str, Any], hosts: Sequence[HostIntent], refusals: _Refusals) -> None:
    for name in intent:
        if name not in INTENT_KEYS and difflib.get_close_matches(name, INTENT_KEYS, n=1, cutoff=0.85):
            refusals.add(
                "intent.unknown-variable",
                f"variable {name} is set",
                "a misspelt variable would silently do nothing",
                _suggest(name, INTENT_KEYS),
            )
    for name in INTENT_KEYS:
        values = [host.intent[name] for host in hosts if name in host.intent]
        if values and (len(values) != len(hosts) or any(value != values[0] for value in values)):
            refusals.add(
                "intent.differs",
                f"{name} is not the same on every host",
                "a cluster has one intent",
                f"set {name} once, in group_vars/all.yml",
            )
    for name in _REQUIRED:
        if not isinstance(intent.get(name), str) or not intent[name]:
            refusals.add(
                "intent.missing",
                f"{name} is {intent.get(name)!r}",
                "the plan needs a hardware profile, a stack release and a model, each by its catalog name",
                f"set {name} in group_vars/all.yml to the name of a file in the catalog",
            )


def _check_role_variables(hosts: Sequence[HostIntent], roles: Mapping[str, RoleInterface], refusals: _Refusals) -> None:
    for role, interface in roles.items():
        known = {*interface.variables, *interface.defaults}
        if not known:
            continue
        names = {name for host in hosts for name in host.variables if name.startswith(f"{role}_")}
        for name in sorted(names - known - {*_SHARED_SECRETS}):
            refusals.add(
                "role.unknown-variable",
                f"variable {name} is set",
                f"role {role} has no such variable, so it would silently do nothing",
                _suggest(name, sorted(known)),
            )
    for name in _SHARED_SECRETS:
        if len({str(host.variables.get(name)) for host in hosts}) > 1:
            refusals.add(
                "ray.token",
                f"{name} is not the same on every host",
                "all Ray nodes of a cluster share one token",
                f"set {name} once, in a vaulted group_vars/all file, or leave it out: the head generates one",
            )
    for name in _CLUSTER_WIDE:
        values = [host.variables.get(name) for host in hosts]
        if any(value != values[0] for value in values):
            refusals.add(
                "role.differs",
                f"{name} is not the same on every host",
                "every host of a cluster runs the same image and the same weights",
                f"set {name} once, in group_vars/all.yml",
            )


# --- choices for the whole cluster --------------------------------------------------------------------------


def _choose(
    intent: Mapping[str, Any],
    catalog: Mapping[str, Mapping[str, Mapping[str, Any]]],
    hosts: Sequence[HostIntent],
    roles: Mapping[str, RoleInterface],
    refusals: _Refusals,
) -> Choices | None:
    heads = [host for host in hosts if host.is_head]
    if len(heads) != 1:
        names = ", ".join(host.name for host in heads)
        refusals.add(
            "head.several" if heads else "head.missing",
            f"group head has {len(heads)} hosts: {names}" if heads else "group head has no host",
            "exactly one host of group cluster is in group head: it runs the Ray head and the server",
            "put one host under cluster > children > head > hosts of hosts.yml and the others under workers",
        )
    hardware = _entry(catalog, "hardware", intent.get("firstlight_hardware"), "firstlight_hardware", refusals)
    stack = _entry(catalog, "stacks", intent.get("firstlight_stack"), "firstlight_stack", refusals)
    model = _entry(catalog, "models", intent.get("firstlight_model"), "firstlight_model", refusals)
    fabric = _mapping(intent, "firstlight_fabric", _FABRIC_KEYS, refusals)
    rails = _rails(fabric, len(hosts), refusals)
    mtu = _mtu(fabric, refusals)
    rdma = fabric.get("rdma", hardware["fabric"]["rdma"] if hardware else False)
    if not isinstance(rdma, bool):
        refusals.add(
            "fabric.rdma",
            f"firstlight_fabric.rdma is {rdma!r}",
            "rdma is true or false",
            "write it without quotes, or leave it out to follow the hardware profile",
        )
    serving = _serving(intent, hardware, model, len(hosts), refusals)
    image = _image(intent, stack, refusals)
    revision = _revision(intent, model, refusals)
    if len(heads) != 1 or hardware is None or stack is None or model is None:
        return None
    return Choices(
        hosts=tuple(hosts),
        head=heads[0],
        hardware=hardware,
        stack=stack,
        model=model,
        rails=rails,
        mtu=mtu,
        rdma=bool(rdma) and bool(rails),
        image=image,
        revision=revision,
        serving=serving,
        intent=intent,
        roles=roles,
    )


def _entry(
    catalog: Mapping[str, Mapping[str, Mapping[str, Any]]],
    kind: str,
    name: object,
    variable: str,
    refusals: _Refusals,
) -> Mapping[str, Any] | None:
    entries = catalog.get(kind, {})
    if not isinstance(name, str) or not name:
        return None  # refused as missing
    if name not in entries:
        refusals.add(
            f"{kind.removesuffix('s') if kind != 'hardware' else kind}.unknown",
            f"{variable} is {name!r}",
            f"the catalog has no {kind}/{name}.yml",
            f"{_suggest(name, sorted(entries))} Or add the entry to a directory of firstlight_catalog",
        )
        return None
    return entries[name]


def _mapping(intent: Mapping[str, Any], name: str, known: Sequence[str], refusals: _Refusals) -> Mapping[str, Any]:
    value = intent.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        refusals.add(
            "intent.type",
            f"{name} is {value!r}",
            f"{name} is a mapping with the keys {', '.join(known)}",
            f"write {name} as a mapping, see inventory/spark4/group_vars/all.yml",
        )
        return {}
    _check_keys(value, known, name, refusals)
    return value


def _rails(fabric: Mapping[str, Any], size: int, refusals: _Refusals) -> tuple[Rail, ...]:
    entries = fabric.get("rails") or []
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, Mapping) for entry in entries):
        refusals.add(
            "intent.type",
            f"firstlight_fabric.rails is {entries!r}",
            "rails is a list of mappings with port and subnet",
            "write each rail as {port: enp1s0f1np1, subnet: 192.168.100.0/24}",
        )
        return ()
    if size > 1 and not entries:
        refusals.add(
            "fabric.missing",
            f"{size} hosts and no rail in firstlight_fabric.rails",
            "hosts of one cluster talk over a fabric",
            "name the fabric ports and their subnets in firstlight_fabric.rails",
        )
    rails: list[Rail] = []
    for number, entry in enumerate(entries):
        where = f"firstlight_fabric.rails[{number}]"
        _check_keys(entry, _RAIL_KEYS, where, refusals)
        port, subnet = entry.get("port"), entry.get("subnet")
        if not isinstance(port, str) or not 0 < len(port) <= 15:
            refusals.add(
                "fabric.port",
                f"{where}.port is {port!r}",
                "a port is the kernel's name of a network interface, 1 to 15 characters",
                "take the name from `ip -br link` on the host",
            )
            continue
        try:
            parse_subnet(subnet)
            host_address(str(subnet), max(size - 1, 0))
        except AddressingError as error:
            refusals.add(
                "fabric.subnet",
                f"{where}.subnet: {error}",
                "a rail's subnet holds .10 for the first host and one address more for each further host",
                "write a subnet of its own for the rail, for example 192.168.100.0/24",
            )
            continue
        rails.append(Rail(port, str(subnet)))
    for one, other in overlapping([rail.subnet for rail in rails]):
        refusals.add(
            "fabric.overlap",
            f"subnets {one} and {other} of firstlight_fabric.rails overlap",
            "each rail has its own subnet: of two ports in one subnet the kernel answers on either",
            "give every rail another subnet, for example 192.168.100.0/24 and 192.168.101.0/24",
        )
    ports = [rail.port for rail in rails]
    for port in sorted({port for port in ports if ports.count(port) > 1}):
        refusals.add(
            "fabric.port",
            f"port {port} is in {ports.count(port)} rails",
            "a port belongs to one rail",
            "give every rail its own port",
        )
    return tuple(rails)


def _mtu(fabric: Mapping[str, Any], refusals: _Refusals) -> int:
    mtu = fabric.get("mtu", 9000)
    if isinstance(mtu, bool) or not isinstance(mtu, int) or not MTU_LEAST <= mtu <= MTU_MOST:
        refusals.add(
            "fabric.mtu",
            f"firstlight_fabric.mtu is {mtu!r}",
            f"the MTU is a whole number from {MTU_LEAST} to {MTU_MOST}",
            "write 9000 (jumbo frames), or 1500 where the switch does not pass them, without quotes",
        )
        return 9000
    return mtu


def _whole(
    serving: Mapping[str, Any], key: str, default: int | None, span: tuple[int, int], refusals: _Refusals
) -> int | None:
    value = serving.get(key, default)
    if value is None:
        return None
    least, most = span
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        refusals.add(
            f"serving.{key}",
            f"firstlight_serving.{key} is {value!r}",
            f"{key} is a whole number from {least} to {most}",
            f"correct firstlight_serving.{key}, without quotes",
        )
        return default
    return value


def _serving(
    intent: Mapping[str, Any],
    hardware: Mapping[str, Any] | None,
    model: Mapping[str, Any] | None,
    size: int,
    refusals: _Refusals,
) -> Mapping[str, Any]:
    serving = _mapping(intent, "firstlight_serving", _SERVING_KEYS, refusals)
    flags = _flags(serving.get("flags"), refusals)
    total = hardware["gpus"] * size if hardware else None
    tensor_parallel = _whole(serving, "tensor_parallel", total, (1, 1024), refusals)
    if hardware and tensor_parallel != total:
        refusals.add(
            "serving.tensor_parallel",
            f"firstlight_serving.tensor_parallel is {tensor_parallel}",
            f"{size} x {hardware['name']} have {total} GPUs, and the model is sharded over all of them",
            f"set firstlight_serving.tensor_parallel to {total}, or list other hosts",
        )
    max_model_len = _whole(serving, "max_model_len", None, (1, 16_777_216), refusals)
    context = (model or {}).get("context")
    if max_model_len and context and max_model_len > context:
        refusals.add(
            "serving.max_model_len",
            f"firstlight_serving.max_model_len is {max_model_len}",
            f"{(model or {})['name']} was made for {context} tokens",
            f"set firstlight_serving.max_model_len to {context} or less",
        )
    utilisation = _utilisation(serving, hardware, flags, refusals)
    listen = serving.get("listen", "127.0.0.1")
    if not _is_address(listen):
        refusals.add(
            "serving.listen",
            f"firstlight_serving.listen is {listen!r}",
            "the server listens on an IP address of the head",
            "write 127.0.0.1 (only from the head itself), or the head's address to open it",
        )
    planned: list[str] = []
    if utilisation is not None:
        planned += ["--gpu-memory-utilization", f"{utilisation:g}"]
    if max_model_len:
        planned += ["--max-model-len", str(max_model_len)]
    return {
        "tensor_parallel": tensor_parallel,
        "port": _whole(serving, "port", 8000, (1, 65535), refusals),
        "listen": listen,
        "start_timeout": _whole(serving, "start_timeout", None, (30, 86_400), refusals),
        "served_name": serving.get("served_name") or (model or {}).get("name"),
        "flags": [*planned, *flags],
    }


def _is_address(text: object) -> bool:
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return True


def _utilisation(
    serving: Mapping[str, Any], hardware: Mapping[str, Any] | None, flags: Sequence[str], refusals: _Refusals
) -> float | None:
    """The share of memory to take; None leaves it to the engine.

    On unified memory the engine's own default would take what the operating system needs, so there the
    ceiling is the default, unless the cache has a size of its own.
    """
    value = serving.get("gpu_memory_utilization")
    if value is None:
        sized = any(_flag_name(flag) == "--kv-cache-memory-bytes" for flag in flags)
        return hardware["utilisation_ceiling"] if hardware and hardware["unified"] and not sized else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        refusals.add(
            "serving.utilisation",
            f"firstlight_serving.gpu_memory_utilization is {value!r}",
            "the utilisation is a number above 0 and at most 1",
            "write it as 0.85, without quotes",
        )
        return None
    if hardware and hardware["unified"] and value > hardware["utilisation_ceiling"]:
        refusals.add(
            "serving.utilisation",
            f"firstlight_serving.gpu_memory_utilization is {value:g}",
            f"{hardware['name']} shares its memory with the operating system, which is killed or hangs above "
            f"{hardware['utilisation_ceiling']:g}",
            f"set firstlight_serving.gpu_memory_utilization to {hardware['utilisation_ceiling']:g} or less",
        )
    return float(value)


def _flag_name(flag: str) -> str | None:
    """The canonical name of a flag; None for a value."""
    if not flag.startswith("-") or flag[1:2].isdigit():
        return None
    return flag.split("=", 1)[0].replace("_", "-")


def _flags(flags: object, refusals: _Refusals) -> list[str]:
    if flags is None:
        return []
    if not isinstance(flags, (list, tuple)) or not all(isinstance(flag, (str, int, float)) for flag in flags):
        refusals.add(
            "serving.flags",
            f"firstlight_serving.flags is {flags!r}",
            "flags is a list of command line words",
            "write one list item for each word: [--max-num-seqs, 4]",
        )
        return []
    written = [str(flag) for flag in flags]
    for flag in written:
        if flag != flag.strip() or (flag.startswith("--") and " " in flag.split("=", 1)[0]):
            refusals.add(
                "serving.flags",
                f"firstlight_serving.flags has the item {flag!r}",
                "each word of the command line is a list item of its own",
                "split it into the flag and its value",
            )
    names = [name for flag in written if (name := _flag_name(flag))]
    for name in sorted(set(names)):
        if name in _PLANNED_FLAGS:
            refusals.add(
                "serving.flags",
                f"firstlight_serving.flags has {name}",
                f"the plan writes it, from {_PLANNED_FLAGS[name]}",
                f"take {name} out of firstlight_serving.flags",
            )
        elif names.count(name) > 1:
            refusals.add(
                "serving.flags",
                f"firstlight_serving.flags has {name} {names.count(name)} times",
                "the engine would use only the last one",
                f"leave one {name}",
            )
    return written


def _image(intent: Mapping[str, Any], stack: Mapping[str, Any] | None, refusals: _Refusals) -> str:
    given = intent.get("firstlight_image")
    if given is None:
        if stack is None:
            return ""
        repository, digest = stack["image"]["repository"], stack["image"]["digest"]
        reference = f"{repository}@{digest}" if digest else repository
        found = f"stack {stack['name']} has the image {repository} with {digest or 'no digest'}"
    else:
        reference = str(given)
        found = f"firstlight_image is {given!r}"
    if not _DIGEST_REFERENCE.fullmatch(reference):
        refusals.add(
            "image.unpinned",
            found,
            "the image is pinned as REPOSITORY@sha256:DIGEST with 64 hexadecimal digits, "
            "so that every host runs the same bytes",
            "set firstlight_image to the reference `docker buildx imagetools inspect` shows for your image",
        )
    return reference


def _revision(intent: Mapping[str, Any], model: Mapping[str, Any] | None, refusals: _Refusals) -> str:
    given = intent.get("firstlight_model_revision")
    revision = given if given is not None else (model or {}).get("revision")
    if model is not None and not (isinstance(revision, str) and _REVISION.fullmatch(revision)):
        refusals.add(
            "model.revision",
            f"the revision of {model['name']} is {'not set' if revision is None else repr(revision)}",
            "weights are pinned to a commit of their repository: 40 hexadecimal digits, never a branch",
            f"set firstlight_model_revision to the commit of {model['repository']} you want",
        )
    return str(revision or "")


# --- one host's plan ----------------------------------------------------------------------------------------


def _host_plan(choices: Choices, index: int, refusals: _Refusals) -> Plan:
    host = choices.hosts[index]
    order = [choices.head.name, *(one.name for one in choices.hosts if one is not choices.head)]
    fabric = _fabric_of(choices, index)
    roles = _role_variables(choices, host, fabric)
    desired: dict[str, Any] = {}
    for role in ROLES:
        variables = roles[role]
        desired[role] = {}
        if variables is None or (role == "inference_server" and not host.is_head):
            continue
        try:
            desired[role] = desired_state(role, variables)
        except KeyError as error:
            refusals.add(
                "role.state",
                f"role {role} on {host.name} lacks the variable {error}",
                "a planned role has all its variables",
                f"set {error} in the inventory",
            )
        except (ValueError, TypeError) as error:
            refusals.add(
                "role.state",
                f"role {role} on {host.name}: {error}",
                "a role's variables make a state a host can have",
                f"correct the variables of role {role} in the inventory",
            )
    return {
        "cluster": {
            "head": choices.head.name,
            "hosts": [one.name for one in choices.hosts],
            "size": len(choices.hosts),
        },
        "host": {
            "name": host.name,
            "rank": order.index(host.name),
            "is_head": host.is_head,
            "fabric": fabric,
        },
        "roles": roles,
        "desired": desired,
        "refusals": [],
    }


def _fabric_of(choices: Choices, index: int) -> list[dict[str, Any]]:
    return [
        {"port": rail.port, "address": host_address(rail.subnet, index), "mtu": choices.mtu} for rail in choices.rails
    ]


def _bare(address: str) -> str:
    return address.partition("/")[0]


def _role_variables(
    choices: Choices, host: HostIntent, fabric: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any] | None]:
    """Every role's complete variables: its defaults, over them the plan's, over them the operator's."""

    def merged(role: str, planned: Mapping[str, Any]) -> dict[str, Any]:
        interface = choices.roles.get(role, RoleInterface())
        variables = {**interface.defaults, **planned}
        known = {*variables, *interface.variables}
        variables |= {name: host.variables[name] for name in sorted(known) if name in host.variables}
        return {name: value for name, value in variables.items() if not name.endswith(_SECRET_ENDINGS)}

    model, stack, serving = choices.model, choices.stack, choices.serving
    several = len(choices.hosts) > 1
    head_index = choices.hosts.index(choices.head)
    head_address = _bare(_fabric_of(choices, head_index)[0]["address"]) if fabric else "127.0.0.1"
    node_address = _bare(fabric[0]["address"]) if fabric else "127.0.0.1"
    image = merged(
        "inference_image",
        {
            "inference_image_reference": choices.image,
            "inference_image_requires": {
                name: str(version)
                for name, version in stack["requires"].items()
                if name == "vllm" or (name == "ray" and several)
            },
            "inference_image_size_bytes": stack["image"]["size_bytes"],
        },
    )
    root = str(choices.intent.get("firstlight_model_root") or MODEL_ROOT).rstrip("/")
    weights = merged(
        "model_weights",
        {
            "model_weights_endpoint": choices.intent.get("firstlight_weights_endpoint")
            or stack.get("weights_endpoint", WEIGHTS_ENDPOINT),
            "model_weights_repository": model["repository"],
            "model_weights_revision": choices.revision,
            "model_weights_directory": f"{root}/{model['repository'].replace('/', '--')}/{choices.revision}",
        },
    )
    reference, directory = image["inference_image_reference"], weights["model_weights_directory"]
    size_bytes = model.get("size_bytes")
    ray = merged(
        "ray_cluster",
        {
            "ray_cluster_image": reference,
            "ray_cluster_node_address": node_address,
            "ray_cluster_head_address": head_address,
            "ray_cluster_is_head": host.is_head,
            "ray_cluster_head_host": choices.head.name,
            "ray_cluster_size": len(choices.hosts),
            "ray_cluster_port": 6379,
            "ray_cluster_gpus": choices.hardware["gpus"],
            "ray_cluster_interface": fabric[0]["port"] if fabric else "lo",
            "ray_cluster_environment": _environment(choices),
            "ray_cluster_model_directory": directory,
            "ray_cluster_rdma": choices.rdma,
        },
    )
    return {
        "preflight": merged(
            "preflight",
            {
                "preflight_gpus": {"count": choices.hardware["gpus"], "name": choices.hardware["gpu_name"]},
                "preflight_ports": [entry["port"] for entry in fabric],
                "preflight_disk": {directory: size_bytes} if size_bytes else {},
                **_if_set("preflight_distributions", stack.get("distributions")),
            },
        ),
        "container_runtime": merged(
            "container_runtime",
            {
                "container_runtime_packages": dict(stack["packages"]),
                **_if_set("container_runtime_daemon", stack.get("daemon")),
            },
        ),
        "host_tuning": merged("host_tuning", {"host_tuning_headless": bool(choices.hardware.get("headless"))}),
        "fabric_network": merged(
            "fabric_network",
            {
                "fabric_network_ports": [dict(entry) for entry in fabric],
                "fabric_network_peers": [
                    {
                        "host": other.name,
                        "port": entry["port"],
                        "address": _bare(entry["address"]),
                        "mtu": entry["mtu"],
                    }
                    for index, other in enumerate(choices.hosts)
                    if other is not host
                    for entry in _fabric_of(choices, index)
                ],
            },
        ),
        "inference_image": image,
        "model_weights": weights,
        "ray_cluster": ray if several else None,
        "inference_server": merged(
            "inference_server",
            {
                "inference_server_image": reference,
                "inference_server_model_directory": directory,
                "inference_server_served_name": serving["served_name"],
                "inference_server_tensor_parallel": serving["tensor_parallel"],
                "inference_server_flags": list(serving["flags"]),
                "inference_server_listen": serving["listen"],
                "inference_server_port": serving["port"],
                "inference_server_node_address": head_address,
                "inference_server_ray": several,
                "inference_server_ray_port": ray["ray_cluster_port"],
                **_if_set("inference_server_start_timeout", serving["start_timeout"]),
            },
        ),
    }


def _if_set(name: str, value: Any) -> dict[str, Any]:
    """A variable only where there is a value for it; else the role's default stays."""
    return {} if value is None else {name: value}


def _environment(choices: Choices) -> dict[str, str]:
    """What every rank needs in its environment beyond the role's own: the RDMA devices behind the rails.

    Without the list NCCL also tries the ports that have no cable. With NCCL_NET a fabric without working
    RDMA is an error instead of a silent fall back to TCP, several times slower.
    """
    if not choices.rdma:
        return {}
    known = {entry["port"]: entry.get("rdma_device") for entry in choices.hardware["fabric"]["ports"]}
    devices = [known.get(rail.port) for rail in choices.rails]
    if not all(devices):
        return {"NCCL_NET": "IB"}
    return {"NCCL_IB_HCA": f"={','.join(str(device) for device in devices)}", "NCCL_NET": "IB"}
