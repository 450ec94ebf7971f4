# SPDX-License-Identifier: Apache-2.0
"""Turn Ansible's host variables into a plan, the same way for `firstlight plan` and the action `plan`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.parsing.vault import AnsibleVaultError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import (
    HostIntent,
    plain,
    read_host,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.other_intent import with_model, with_serving
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan, refused
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planning import plan_hosts
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES

VAULT_RULE = "a plan reads every variable of its hosts, including those that are encrypted; it contains no secret"
VAULT_REMEDY = (
    "give the vault's password with --vault-password-file FILE, or set vault_password_file in ansible.cfg: "
    "`firstlight plan` and ansible-playbook accept both"
)

LONGEST = 300
"""Longest reason, in characters; Ansible's own may quote half a file."""

_USERS = ("ansible_user", "ansible_ssh_user")
_PORTS = ("ansible_port", "ansible_ssh_port")
_ADDRESSES = ("ansible_host", "ansible_ssh_host")


@dataclass(frozen=True)
class Source:
    """A host as Ansible knows it: `names` are its variable names, and `value` returns the templated value of one."""

    name: str
    groups: Collection[str]
    names: Collection[Any]
    value: Callable[[str], Any]


@dataclass(frozen=True)
class Asked:
    """What is planned instead of the inventory's own settings."""

    stack: str | None = None
    model: str | None = None
    model_revision: str | None = None
    serving: Mapping[str, Any] | None = None


def asked_by_variables(sources: Sequence[Source]) -> Asked:
    """Return what -e plan_stack=NAME, plan_model=NAME and plan_serving={...} request, as in playbooks/plan.yml."""

    def given(name: str) -> Any:
        return (sources[0].value(name) if sources and name in sources[0].names else None) or None

    stack, model, serving = given("plan_stack"), given("plan_model"), given("plan_serving")
    return Asked(
        stack=str(stack) if stack else None,
        model=str(model) if model else None,
        serving=plain(serving) if isinstance(serving, Mapping) else None,
    )


def plan_sources(
    sources: Sequence[Source],
    group: str = "cluster",
    asked: Asked | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    files: Iterable[str] = (),
) -> ClusterPlan:
    """Return the plan of these hosts, or its errors; `asked` overrides the inventory.

    `groups` are all groups of the inventory with their hosts, `files` its files and directories.
    """
    errors = PlanErrors()
    hosts = read_hosts(sources, ROLES, errors)
    if errors:
        return refused((), errors)
    asked = asked or Asked()
    if asked.model is not None:
        hosts = with_model(hosts, asked.model, asked.model_revision, asked.serving)
    elif asked.serving:
        hosts = with_serving(hosts, asked.serving)
    return plan_hosts(hosts, group, asked.stack, groups, files)


def read_hosts(sources: Iterable[Source], roles: Iterable[str], errors: PlanErrors) -> list[HostIntent]:
    """Read the intent of every host; an unreadable variable is refused once, with all hosts that have it."""
    prefixes = tuple(roles)
    unread: dict[tuple[str, str], list[str]] = {}

    def read(source: Source, key: str) -> Any:
        try:
            return plain(source.value(key))
        except AnsibleError as error:
            having = unread.setdefault((key, "" if is_vault_error(error) else short_reason(error)), [])
            if source.name not in having[-1:]:
                having.append(source.name)
            return None

    defaults = [constants.config.get_config_value(f"DEFAULT_REMOTE_{name}") for name in ("USER", "PORT")]
    hosts = []
    for source in sources:

        def value(key: str, source: Source = source) -> Any:
            return read(source, key)

        found = read_host(source.name, source.groups, source.names, value, prefixes)
        hosts.append(_reached(found, source.names, value, *defaults))
    for (key, reason), names in unread.items():
        others = len(names) - 1
        more = f" and {others} more host{'s' if others > 1 else ''}" if others else ""
        where = f"variable {key} of {names[0]}{more}"
        if reason:
            errors.add(
                "inventory.unreadable",
                f"{where} cannot be templated: {reason}",
                "every variable that the plan reads has a value",
                f"correct {key} in the inventory, or define what it refers to",
            )
        else:
            errors.add(
                "inventory.vault",
                f"{where} is encrypted, and none of the given vault passwords decrypts it",
                VAULT_RULE,
                VAULT_REMEDY,
            )
    return hosts


def _reached(
    host: HostIntent, names: Collection[Any], value: Callable[[str], Any], default_user: Any, default_port: Any
) -> HostIntent:
    """Return the host with the address, account and port Ansible would use, including ansible.cfg and older names."""

    def first(listed: Iterable[str]) -> Any:
        return next((value(name) for name in listed if name in names), None)

    user = host.user or first(_USERS) or default_user
    port = host.port or first(_PORTS) or default_port
    address = host.address or first(_ADDRESSES)
    return dataclasses.replace(
        host,
        address=str(address) if address else None,
        user=str(user) if user else None,
        port=int(port) if str(port).isdecimal() else None,
    )


def is_vault_error(error: BaseException) -> bool:
    """Whether a value could not be decrypted, however deep that is in the chain of causes."""
    return any(
        isinstance(one, AnsibleVaultError) or getattr(one, "context", None) == "vault" or "undecryptable" in str(one)
        for one in causes(error)
    )


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its chain of causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def short_reason(error: BaseException | None) -> str:
    """Return an error's message on one line, shortened."""
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
