# SPDX-License-Identifier: Apache-2.0
"""From the hosts of an inventory to the plan: reads the files the plan needs, then leaves it to the pure planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.models.files import parse_config_file
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.knowledge import load_knowledge
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan, plan_cluster, refused
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.roles import load_roles


def plan_hosts(hosts: Sequence[HostIntent], group: str = "cluster") -> ClusterPlan:
    """The plan of these hosts, or the refusals. Reads catalog, roles and config.json; contacts no host."""
    refusals = Refusals()
    if not hosts:
        refusals.add(
            "inventory.empty",
            f"group {group} has no hosts",
            f"the hosts to bring up are in group {group}",
            f"list them in hosts.yml under {group} > children > head and workers",
        )
        return refused((), refusals)
    intent = dict(hosts[0].intent)
    directories = catalog_directories(intent, refusals)
    try:
        knowledge = load_knowledge(directories, load_roles(BUILT_IN.parent / "roles", ROLES))
    except CatalogError as error:
        for problem in error.problems:
            refusals.add(
                "catalog.unusable",
                problem,
                "a catalog entry has the fields of catalog/README.md",
                "correct the file, or take its directory out of firstlight_catalog",
            )
        return refused(hosts, refusals)
    return plan_cluster(intent, hosts, knowledge, config=_config(intent, refusals), refusals=refusals)


def catalog_directories(intent: Mapping[str, Any], refusals: Refusals) -> list[str]:
    """Where catalog entries are looked for, the site's own first."""
    site = intent.get("firstlight_catalog") or []
    if not isinstance(site, (list, tuple)):
        refusals.add(
            "intent.type",
            f"firstlight_catalog is {site!r}",
            "firstlight_catalog is a list of directories",
            "write it as a YAML list",
        )
        site = []
    return [*(str(path) for path in site), str(BUILT_IN)]


def _config(intent: Mapping[str, Any], refusals: Refusals) -> Mapping[str, Any] | None:
    """The config.json the intent names, if it names one."""
    path = intent.get("firstlight_model_config")
    if path is None:
        return None
    if not isinstance(path, str):
        refusals.add(
            "intent.type",
            f"firstlight_model_config is {path!r}",
            "firstlight_model_config is the path of a config.json",
            "write the path as text",
        )
        return None
    return parse_config_file(path, refusals)
