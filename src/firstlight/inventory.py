# SPDX-License-Identifier: Apache-2.0
"""Reading an inventory the way Ansible does, without contacting a host.

The one place of the command that uses Ansible's own code: precedence of variables, group_vars, templates and vaults are
Ansible's to decide, so that `firstlight plan` and `site.yml` see the same intent.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ansible import constants, context
from ansible.cli import CLI
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.collections import ImmutableDict
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultSecretsContext
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.utils.collection_loader._collection_config import AnsibleCollectionConfig
from ansible.utils.vars import load_extra_vars
from ansible.vars.manager import VariableManager

# Ansible imports collections through a finder of its own, which has to be there before the first of them.
if AnsibleCollectionConfig.collection_finder is None:
    init_plugin_loader()

from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.hosts import (
    SECRET_ENDINGS,
    HostIntent,
    read_host,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan, refused
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planning import plan_hosts
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals

UNREADABLE = "<a secret that was not read>"


class InventoryError(Exception):
    """An inventory that cannot be read, in one sentence."""


def plan_inventory(
    sources: Sequence[str], *, extra_vars: Sequence[str] = (), vault_password_files: Sequence[str] = ()
) -> ClusterPlan:
    """The plan of an inventory; one that cannot be read is refused like any other."""
    try:
        hosts = read_inventory(sources, ROLES, extra_vars=extra_vars, vault_password_files=vault_password_files)
    except InventoryError as error:
        refusals = Refusals()
        refusals.add(
            "inventory.unreadable",
            str(error),
            "an inventory is a file or directory that ansible-inventory can read",
            f"look at what `ansible-inventory -i {' -i '.join(sources)} --list` says",
        )
        return refused((), refusals)
    return plan_hosts(hosts)


def read_inventory(
    sources: Sequence[str],
    roles: Iterable[str],
    *,
    group: str = "cluster",
    extra_vars: Sequence[str] = (),
    vault_password_files: Sequence[str] = (),
) -> list[HostIntent]:
    """Every host of the group, in the order of the inventory. Raises InventoryError."""
    missing = [source for source in sources if "," not in source and not Path(source).exists()]
    if missing:
        raise InventoryError(f"inventory {', '.join(missing)} does not exist")
    try:
        return _read(sources, tuple(roles), group, extra_vars, vault_password_files)
    except AnsibleError as error:
        raise InventoryError(" ".join(str(error).split())) from error


def _read(
    sources: Sequence[str], roles: tuple[str, ...], group: str, extra_vars: Sequence[str], vault_files: Sequence[str]
) -> list[HostIntent]:
    context.CLIARGS = ImmutableDict(extra_vars=tuple(extra_vars))
    vars(load_extra_vars).pop("extra_vars", None)  # Ansible keeps what an earlier call in this process read
    loader = DataLoader()
    identities = list(constants.config.get_config_value("DEFAULT_VAULT_IDENTITY_LIST"))
    fresh = VaultSecretsContext.current(optional=True) is None  # it can be set once in a process
    secrets = CLI.setup_vault_secrets(
        loader, identities, list(vault_files), auto_prompt=False, initialize_context=fresh
    )
    loader.set_vault_secrets(secrets)
    # A file Ansible cannot read is a warning by default, and the hosts in it silently missing.
    vars(constants)["INVENTORY_ANY_UNPARSED_IS_FAILED"] = True
    inventory = InventoryManager(loader=loader, sources=list(sources))
    manager = VariableManager(loader=loader, inventory=inventory)
    members = inventory.groups[group].get_hosts() if group in inventory.groups else []
    heads = {host.name for host in inventory.groups["head"].get_hosts()} if "head" in inventory.groups else set()
    hosts: list[HostIntent] = []
    for host in members:
        variables = manager.get_vars(host=host, include_hostvars=True)
        value = functools.partial(_value, Templar(loader=loader, variables=variables), variables, host.name)
        hosts.append(read_host(host.name, host.name in heads, variables, value, roles))
    return hosts


def _value(templar: Templar, variables: dict[str, Any], host: str, key: str) -> Any:
    try:
        return templar.template(variables[key])
    except AnsibleError as error:
        if key.endswith(SECRET_ENDINGS):
            return UNREADABLE  # a plan on paper needs no secret, so it needs no vault password either
        raise AnsibleError(f"variable {key} of host {host} cannot be templated: {error}") from error
