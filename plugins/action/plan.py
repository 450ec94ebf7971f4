# SPDX-License-Identifier: Apache-2.0
"""The action `plan`: gather the intent of group `cluster` and plan it; no host is contacted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog import CatalogError, load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.planner import build_plan
from ansible_collections.firstlight.cluster.plugins.plugin_utils.refusals import explain_refusals
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import load_roles

COLLECTION = Path(__file__).absolute().parents[2]
"""The collection's own directory; not resolved, so that links and an installed copy look alike."""

RESULTS = ("firstlight_plan", "firstlight_observation", "firstlight_pending")
"""Facts an earlier play of the same run may have left; they are results, not intent."""


class ActionModule(ActionBase):
    """Plans the cluster of the inventory."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plan every host of the group, and hand back this host's plan and all of them."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self.validate_argument_spec({"group": {"type": "str", "default": "cluster"}})
        variables = task_vars or {}
        group = self._task.args.get("group", "cluster")
        groups = variables.get("groups") or {}
        names = [str(name) for name in groups.get(group) or []]
        if not names:
            return _failed(
                result,
                f"group {group} has no hosts, expected the hosts to bring up: "
                f"list them in hosts.yml under {group} > children > head and workers",
            )
        heads = {str(name) for name in groups.get("head") or []}
        hostvars = variables["hostvars"]
        hosts = [_host_intent(name, name in heads, hostvars[name]) for name in names]
        intent = dict(hosts[0].intent)
        site = intent.get("firstlight_catalog") or []
        if isinstance(site, str) or not isinstance(site, Iterable):
            return _failed(
                result,
                f"firstlight_catalog is {site!r}, expected a list of directories: write it as a YAML list",
            )
        try:
            catalog = load_catalog([*(str(path) for path in site), COLLECTION / "catalog"])
        except CatalogError as error:
            lines = ["The catalog cannot be used, no host was touched:", *error.problems]
            return _failed(result, "\n".join(lines))
        plans = build_plan(intent, catalog, hosts, load_roles(COLLECTION / "roles", ROLES))
        own = plans.get(str(variables.get("inventory_hostname")), plans[names[0]])
        if own["refusals"]:
            return _failed({**result, "refusals": own["refusals"]}, explain_refusals(own["refusals"]))
        result.update(changed=False, plan=own, plans=plans)
        return result


def _failed(result: dict[str, Any], message: str) -> dict[str, Any]:
    result.update(failed=True, changed=False, msg=message)
    return result


def _host_intent(name: str, is_head: bool, variables: Mapping[str, Any]) -> HostIntent:
    """What the inventory sets for a host, templated; only the variables the plan looks at are asked for."""
    prefixes = tuple(f"{role}_" for role in ROLES)
    mine = [key for key in variables if isinstance(key, str)]
    return HostIntent(
        name=name,
        is_head=is_head,
        intent={
            key: _value(variables, key, name) for key in mine if key.startswith("firstlight_") and key not in RESULTS
        },
        variables={key: _value(variables, key, name) for key in mine if key.startswith(prefixes)},
    )


def _value(variables: Mapping[str, Any], key: str, host: str) -> Any:
    try:
        return _plain(variables[key])
    except AnsibleError as error:
        raise AnsibleError(f"variable {key} of host {host} cannot be templated: {error}") from error


def _plain(value: Any) -> Any:
    """The value with its containers made ordinary ones, which also templates what is lazy in them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
