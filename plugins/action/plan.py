# SPDX-License-Identifier: Apache-2.0
"""The action `plan`: collect the intent of group `cluster` and plan it without contacting any host."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.verdict import gate_lines, verdict_lines
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import planned_help
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import explain_errors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import plain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.reading import Asked, Source, plan_sources
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.switch import resources
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.hazards import overdue


class ActionModule(ActionBase):
    """Plans the cluster of the inventory."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plan every host of the group and return all plans."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "group": {"type": "str", "default": "cluster"},
                "complete": {"type": "bool", "default": True},
                "stack": {"type": "str"},
                "model": {"type": "str"},
                "model_revision": {"type": "str"},
                "serving": {"type": "dict"},
                "without": {"type": "list", "elements": "str", "default": []},
                "bench": {"type": "path"},
                "observed": {"type": "str"},
            }
        )
        variables = task_vars or {}
        groups = variables.get("groups") or {}
        hostvars = variables["hostvars"]
        sources = [
            Source(
                name,
                [group for group in ("head", "workers") if name in (groups.get(group) or [])],
                hostvars[name],
                hostvars[name].__getitem__,
            )
            for name in (str(name) for name in groups.get(arguments["group"]) or [])
            if name not in arguments["without"]
        ]
        asked = Asked(arguments["stack"], arguments["model"], arguments["model_revision"], arguments["serving"])
        files = variables.get("ansible_inventory_sources") or ()
        plan = plan_sources(sources, arguments["group"], asked, groups, files)
        missing_inputs = plan.missing_inputs if arguments["complete"] else []
        result.update(
            changed=False, errors=list(plan.errors), missing_inputs=list(plan.missing_inputs), notes=list(plan.notes)
        )
        late = overdue(plan.assessment.hazards, dt.datetime.now(dt.UTC).date())
        if late:
            result["warnings"] = late
        if plan.errors or missing_inputs:
            result.update(failed=True, msg=explain_errors(plan.errors, missing_inputs))
            return result
        if plan.missing_inputs:
            self._display.display(explain_errors((), plan.missing_inputs))
        plans = {name: host | _more(host, hostvars[name].get("inventory_dir")) for name, host in plan.hosts.items()}
        result.update(plans=plans, document=plan.document())
        if arguments["bench"] is not None:
            result.update(_bench(plan, arguments["bench"], _observations(hostvars, plan, arguments["observed"])))
        return result


def _more(plan: Mapping[str, Any], inventory: object) -> dict[str, Any]:
    """Return what playbooks need beside a host's plan: its serving resources and the help for clients."""
    roles, name = plan["roles"], str(plan["host"]["name"])
    asked = planned_help(roles, name, [str(inventory or "")]).lines() if roles.get("endpoint") else []
    return {"resources": resources(plan), "client_help": asked}


def _observations(hostvars: Mapping[str, Any], plan: ClusterPlan, observed: str | None) -> dict[str, Any]:
    """Return the observation of each host from the variable in which the result of `observe` was registered."""
    found = {name: hostvars[name].get(observed) for name in plan.hosts} if observed else {}
    return {name: plain(one.get("observation")) for name, one in found.items() if isinstance(one, Mapping)}


def _bench(plan: ClusterPlan, path: str, observations: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict of a benchmark, also as text, and why gating workloads do not pass."""
    try:
        verdict = plan.verdict(json.loads(Path(path).read_text(encoding="utf-8")), observations)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"{path} cannot be evaluated ({error!r}), expected the result of a benchmark: measure again"
        return {"failed": True, "msg": why}
    gate = gate_lines(verdict, plan.bench.get("gate") or ())
    return {"bench": verdict, "bench_lines": verdict_lines(verdict), "bench_gate": gate}
