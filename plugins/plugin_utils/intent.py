# SPDX-License-Identifier: Apache-2.0
"""Reading and checking an intent: everything that is decided once, for the whole cluster."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.hub import COMMIT_LENGTH
from ansible_collections.firstlight.cluster.plugins.module_utils.core.words import is_hexadecimal
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog import Catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent_fabric import Fabric, read_fabric
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent_keys import INTENT_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent_serving import read_serving
from ansible_collections.firstlight.cluster.plugins.plugin_utils.refusals import Refusals, suggest

_REQUIRED = ("firstlight_hardware", "firstlight_stack", "firstlight_model")

_DIGEST_REFERENCE = re.compile(r"[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")


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
class Choices:
    """Everything that was decided for the whole cluster."""

    hosts: tuple[HostIntent, ...]
    head: HostIntent
    hardware: Mapping[str, Any]
    stack: Mapping[str, Any]
    model: Mapping[str, Any]
    fabric: Fabric
    image: str
    revision: str
    serving: Mapping[str, Any]
    intent: Mapping[str, Any]


def check_intent(intent: Mapping[str, Any], hosts: Sequence[HostIntent], refusals: Refusals) -> None:
    """Refuse what is misspelt, missing, or not the same on every host."""
    for name in intent:
        if name not in INTENT_KEYS and difflib.get_close_matches(name, INTENT_KEYS, n=1, cutoff=0.85):
            refusals.add(
                "intent.unknown-variable",
                f"variable {name} is set",
                "a misspelt variable would silently do nothing",
                suggest(name, INTENT_KEYS),
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


def choose(
    intent: Mapping[str, Any],
    catalog: Catalog,
    hosts: Sequence[HostIntent],
    refusals: Refusals,
) -> Choices | None:
    """Everything the intent decides; None where a part is refused without which there is nothing to plan."""
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
    fabric = read_fabric(intent, hardware, len(hosts), refusals)
    serving = read_serving(intent, hardware, model, len(hosts), refusals)
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
        fabric=fabric,
        image=image,
        revision=revision,
        serving=serving,
        intent=intent,
    )


def _entry(
    catalog: Catalog,
    kind: str,
    name: object,
    variable: str,
    refusals: Refusals,
) -> Mapping[str, Any] | None:
    entries = catalog.get(kind, {})
    if not isinstance(name, str) or not name:
        return None  # refused as missing
    if name not in entries:
        refusals.add(
            f"{kind.removesuffix('s') if kind != 'hardware' else kind}.unknown",
            f"{variable} is {name!r}",
            f"the catalog has no {kind}/{name}.yml",
            f"{suggest(name, sorted(entries))} Or add the entry to a directory of firstlight_catalog",
        )
        return None
    return entries[name]


def _image(intent: Mapping[str, Any], stack: Mapping[str, Any] | None, refusals: Refusals) -> str:
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


def _revision(intent: Mapping[str, Any], model: Mapping[str, Any] | None, refusals: Refusals) -> str:
    given = intent.get("firstlight_model_revision")
    revision = given if given is not None else (model or {}).get("revision")
    if model is not None and not (isinstance(revision, str) and is_hexadecimal(revision, COMMIT_LENGTH)):
        refusals.add(
            "model.revision",
            f"the revision of {model['name']} is {'not set' if revision is None else repr(revision)}",
            "weights are pinned to a commit of their repository: 40 hexadecimal digits, never a branch",
            f"set firstlight_model_revision to the commit of {model['repository']} you want",
        )
    return str(revision or "")
