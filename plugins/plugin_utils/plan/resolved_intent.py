# SPDX-License-Identifier: Apache-2.0
"""Read and check an intent: everything that is decided once, for the whole cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.image.recipe import Recipe
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import Catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HOST_KEYS, HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint_intent import (
    Endpoint,
    read_endpoint,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.firewall_intent import (
    FirewallIntent,
    read_firewall_intent,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.monitoring_intent import (
    Monitoring,
    read_monitoring,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.intent import Fabric, read_fabric
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.hosts.power import read_power
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.hosts.rack import (
    check_racks,
    rack_budgets,
    read_racks,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.image.intent import read_image
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.image.recipe import chosen_recipe
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import INTENT_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.intent import Serving, read_serving
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.targets import read_targets
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.sources import (
    Source,
    read_replacements,
    resolve,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.weights.intent import (
    check_model_files,
    check_token,
    check_weights_pin,
    check_weights_source,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.weights.model import find_model, read_revision
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import TRUTH

ERRORS = {
    "intent.unknown-variable": "A misspelt variable would silently do nothing.",
    "intent.differs": "A cluster has one intent; two hosts that want different things are two clusters, or a mistake.",
    "intent.missing": "Hardware, stack and model decide everything else; none of them is guessed.",
    "intent.path": "A path on a host begins with /, as there is no directory that it could be relative to.",
    "head.missing": "One host runs the Ray head and the server; without it nothing serves.",
    "head.several": "One host runs the Ray head and the server; two would be two clusters.",
    "head.worker": "A host that is head and worker would run two Ray nodes with one name.",
    "host.duplicate-address": "A machine with two names would be configured twice, each time differently.",
    "hardware.unknown": "The hardware profile defines what a host must show.",
    "stack.unknown": "A stack release pins every part that is installed.",
    "stack.hardware": "A stack pins packages of certain machines; on others it would replace what is preinstalled.",
    "price.value": "A price is an amount of money for one GPU and one hour.",
}

_REQUIRED = ("firstlight_hardware", "firstlight_stack", "firstlight_model")


@dataclass(frozen=True)
class ClusterIntent:
    """Everything that was decided for the whole cluster; a part that was refused is None."""

    hosts: tuple[HostIntent, ...]
    head: HostIntent | None
    hardware: Mapping[str, Any] | None
    stack: Mapping[str, Any] | None
    model: Mapping[str, Any] | None
    fabric: Fabric
    image: str
    """The image by its digest; built where there is a `recipe`."""
    revision: str
    serving: Serving
    price: float | None
    intent: Mapping[str, Any]
    notes: tuple[str, ...]
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Package source of each role that installs packages; a role without one uses the host's own sources."""
    runtime_sources: Sequence[Source] = ()
    """Package sources of the container runtime, which may be several: each with its name and its packages."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Keys and locks by the names they have in the intent or the stack."""
    power: Mapping[str, Any] = field(default_factory=dict)
    """The power budget in W, and the budgets by rack, where the hosts have one."""
    firewall: FirewallIntent | None = None
    """What is opened besides the plan's own openings; None if it is not set, as for the next two."""
    endpoint: Endpoint | None = None
    """The endpoint for clients."""
    monitoring: Monitoring | None = None
    """Who may read the metrics of the hosts."""
    targets: Mapping[str, float] = field(default_factory=dict)
    """The service's targets, by the names in firstlight_targets; empty if nothing is set."""
    recipe: Recipe | None = None
    """What the image is built from on the head; None if it is pulled or loaded."""


@dataclass(frozen=True)
class ResolvedIntent(ClusterIntent):
    """A cluster intent with every part present: what a host's plan is made from."""

    head: HostIntent
    hardware: Mapping[str, Any]
    stack: Mapping[str, Any]
    model: Mapping[str, Any]

    def number_of(self, host: HostIntent) -> int:
        """Return the place of a host in the inventory."""
        return self._numbers[host.name]

    @functools.cached_property
    def _numbers(self) -> dict[str, int]:
        return {host.name: number for number, host in enumerate(self.hosts)}


def resolve_intent(decided: ClusterIntent) -> ResolvedIntent | None:
    """Return the resolved intent, or None if a part is missing."""
    parts = vars(decided)
    return (
        ResolvedIntent(**parts)
        if all(parts[part] is not None for part in ("head", "hardware", "stack", "model"))
        else None
    )


def check_intent(intent: Mapping[str, Any], hosts: Sequence[HostIntent], errors: PlanErrors) -> None:
    """Refuse what is misspelt, missing, or not the same on every host."""
    for name in sorted({name for host in hosts for name in host.intent} | {*intent}):
        if name not in INTENT_KEYS and name not in HOST_KEYS:
            errors.add(
                "intent.unknown-variable",
                f"variable {name} is set",
                "the prefix firstlight_ is reserved for known variables; any other would do nothing",
                suggest(name, [*INTENT_KEYS, *HOST_KEYS]),
            )
    for name in INTENT_KEYS:
        values = [host.intent[name] for host in hosts if name in host.intent]
        if values and (len(values) != len(hosts) or any(value != values[0] for value in values)):
            errors.add(
                "intent.differs",
                f"{name} is not the same on every host",
                "a cluster has one intent",
                f"set {name} once, in group_vars/all.yml",
            )
    for name in _REQUIRED:
        if not isinstance(intent.get(name), str) or not intent[name]:
            errors.add(
                "intent.missing",
                f"{name} is {intent.get(name)!r}",
                "the plan needs a hardware profile, a stack release and a model, each by its catalog name",
                f"set {name} in group_vars/all.yml to the name of a file in the catalog",
            )
    _check_values(intent, errors)
    machines: dict[str, list[str]] = {}
    for host in hosts:
        machines.setdefault((host.address or host.name).lower().rstrip("."), []).append(host.name)
    for address, names in machines.items():
        if len(names) > 1:
            errors.add(
                "host.duplicate-address",
                f"{' and '.join(names)} are both reached at {address}",
                "every host of the inventory is a machine of its own",
                f"correct ansible_host of {names[-1]} in hosts.yml",
            )
    for host in hosts:
        if host.is_head and host.is_worker:
            errors.add(
                "head.worker",
                f"{host.name} is in group head and in group workers",
                "a host is one or the other",
                f"take {host.name} out of workers, or out of head",
            )


def _check_values(intent: Mapping[str, Any], errors: PlanErrors) -> None:
    """Refuse single values of an invalid type or form."""
    takes: dict[str, tuple[Callable[[str], bool], str]] = {
        "firstlight_full": (lambda text: text.lower() in TRUTH, "true or false"),
        "firstlight_bench_now": (lambda text: text.lower() in TRUTH, "true or false"),
        "firstlight_answer_timeout": (lambda text: text.isdecimal() and int(text) > 0, "seconds, as 300"),
        "firstlight_weights_endpoint": (
            lambda text: text.startswith(("http://", "https://")),
            "an address, as https://hub.example",
        ),
    }
    for name, (takes_it, expected) in takes.items():
        if intent.get(name) is not None and not takes_it(str(intent[name])):
            errors.add("intent.type", f"{name} is {intent[name]!r}", f"it is {expected}", f"write {expected}")
    root = intent.get("firstlight_model_root")
    if root is not None and (not isinstance(root, str) or not root.startswith("/") or "," in root):
        errors.add(
            "intent.path",
            f"firstlight_model_root is {root!r}",
            "it is the directory for weights on the hosts: an absolute path without a comma",
            "write it as /srv/models, or leave it out",
        )


def choose(
    intent: Mapping[str, Any],
    catalog: Catalog,
    hosts: Sequence[HostIntent],
    config: Mapping[str, Any] | None,
    errors: PlanErrors,
    missing_inputs: PlanErrors,
    files: Mapping[str, str] | None = None,
) -> ClusterIntent:
    """Decide everything the intent covers. `config` is the config.json it names, if any, `files` its keys and locks.

    `missing_inputs` collects what only the operator knows: the plan is valid without it, but nothing can be run.
    """
    heads = [host for host in hosts if host.is_head]
    if len(heads) != 1:
        names = ", ".join(host.name for host in heads)
        errors.add(
            "head.several" if heads else "head.missing",
            f"group head has {len(heads)} hosts: {names}" if heads else "group head has no host",
            "exactly one host of group cluster is in group head: it runs the Ray head and the server",
            "put one host under cluster > children > head > hosts of hosts.yml and the others under workers",
        )
    hardware = _entry(catalog["hardware"], "hardware", intent.get("firstlight_hardware"), errors)
    stack = _entry(catalog["stacks"], "stack", intent.get("firstlight_stack"), errors)
    if hardware and stack and hardware["name"] not in (stack.get("hardware") or [hardware["name"]]):
        errors.add(
            "stack.hardware",
            f"stack {stack['name']} on {hardware['name']}",
            f"this stack is for {', '.join(stack['hardware'])}",
            f"choose a stack for {hardware['name']}, or add it to a stack of your own in firstlight_catalog",
        )
    fabric = read_fabric(intent, hardware, stack, hosts, errors)
    model, notes = find_model(catalog["models"], intent.get("firstlight_model"), config, errors)
    check_weights_source(intent, errors)
    check_weights_pin(intent, stack, model, errors)
    check_model_files(intent, model, errors)
    gated = check_token(intent, model, hosts, missing_inputs)
    power = read_power(intent, errors)
    racks = read_racks(hosts, errors)
    rack_notes = check_racks(racks, power, hardware, errors)
    recipe, told = chosen_recipe(
        intent, stack, catalog.get("recipes", {}), hardware, files or {}, errors, missing_inputs
    )
    built = [f"The image is built on {heads[0].name} {told}"] if recipe and len(heads) == 1 else []
    sources, runtime_sources = _sources(
        intent, catalog.get("sources", {}), stack, hardware, hosts, files or {}, errors, missing_inputs
    )
    return ClusterIntent(
        hosts=tuple(hosts),
        head=heads[0] if len(heads) == 1 else None,
        hardware=hardware,
        stack=stack,
        model=model,
        fabric=fabric,
        image=read_image(intent, stack, recipe, errors, missing_inputs),
        revision=read_revision(intent, model, errors, missing_inputs),
        serving=read_serving(intent, hardware, stack, model, len(hosts), errors),
        price=_price(intent, errors),
        intent=intent,
        notes=(*notes, *gated, *fabric.notes, *rack_notes, *built),
        sources=sources,
        runtime_sources=runtime_sources,
        files=files or {},
        power={**power, **rack_budgets(racks)},
        firewall=read_firewall_intent(intent, errors),
        endpoint=read_endpoint(intent, errors),
        monitoring=read_monitoring(intent, hosts, errors),
        targets=read_targets(intent, errors),
        recipe=recipe,
    )


def _entry(
    entries: Mapping[str, Mapping[str, Any]], kind: str, name: object, errors: PlanErrors
) -> Mapping[str, Any] | None:
    if not isinstance(name, str) or not name:
        return None  # refused as missing
    if name not in entries:
        directory = kind if kind == "hardware" else f"{kind}s"
        errors.add(
            "hardware.unknown" if kind == "hardware" else "stack.unknown",
            f"firstlight_{kind} is {name!r}",
            f"the catalog has no {directory}/{name}.yml",
            suggest(name, sorted(entries), otherwise="add the entry to a directory of firstlight_catalog"),
        )
        return None
    return entries[name]


def _sources(
    intent: Mapping[str, Any],
    known: Mapping[str, Mapping[str, Any]],
    stack: Mapping[str, Any] | None,
    hardware: Mapping[str, Any] | None,
    hosts: Sequence[HostIntent],
    keys: Mapping[str, str],
    errors: PlanErrors,
    missing_inputs: PlanErrors,
) -> tuple[dict[str, Source], list[Source]]:
    """Return the package sources in use, by role and for the container runtime; a driver only verified needs none."""
    replaced = read_replacements(intent, known, keys, errors)
    if stack is None or hardware is None:
        return {}, []
    driver, cuda = stack.get("driver") or {}, stack.get("cuda") or {}
    policies = {str(host.variables.get("nvidia_driver_policy") or driver.get("policy")) for host in hosts}
    named = {
        "nvidia_driver": driver.get("source") if driver.get("packages") and "install" in policies else None,
        "cuda_toolkit": cuda.get("source") if cuda.get("packages") else None,
    }
    # A source that the operator sets for a role directly is for the role to check.
    mine = {role for role in named if all(f"{role}_source" in host.variables for host in hosts)}

    def found(name: str) -> Source:
        distributions = stack.get("distributions") or []
        return resolve(name, known, replaced, distributions, hardware.get("architecture"), errors, missing_inputs)

    sources = {role: found(str(name)) for role, name in named.items() if name and role not in mine}
    if all("container_runtime_sources" in host.variables for host in hosts):
        return sources, []
    return sources, _runtime_sources(stack, found)


def _runtime_sources(stack: Mapping[str, Any], found: Callable[[str], Source]) -> list[Source]:
    """Return the container runtime's sources other than the host's own, each with the packages that come from it."""
    pinned = {str(name) for name, version in stack["packages"].items() if version}
    packages: dict[str, list[str]] = {}
    for package, source in sorted((stack.get("package_sources") or {}).items()):
        if package in pinned:
            packages.setdefault(str(source), []).append(str(package))
    resolved = {name: found(name) for name in packages}
    return [{"name": name, "packages": packages[name], **source} for name, source in resolved.items() if source]


def _price(intent: Mapping[str, Any], errors: PlanErrors) -> float | None:
    price = intent.get("firstlight_price_per_gpu_hour")
    if price is None:
        return None
    if isinstance(price, str) and price.replace(".", "", 1).isdecimal():
        price = float(price)  # `-e name=value` is always text
    if isinstance(price, bool) or not isinstance(price, (int, float)) or not 0 <= price < 1e6:
        errors.add(
            "price.value",
            f"firstlight_price_per_gpu_hour is {price!r}",
            "the price of one GPU for one hour is a number, in any currency",
            "write it as 2.5, without quotes, or leave it out",
        )
        return None
    return float(price)
