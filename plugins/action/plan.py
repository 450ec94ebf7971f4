# SPDX-License-Identifier: Apache-2.0
"""The action `plan`: gather the intent of group `cluster` and plan it; no host is contacted."""

from __future__ import annotations

import datetime as dt
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit.hazards import overdue
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.reading import Asked, Source, plan_sources
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import explain_refusals


class ActionModule(ActionBase):
    """Plans the cluster of the inventory."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plan every host of the group, and hand back all the plans."""
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
        gaps = plan.gaps if arguments["complete"] else []
        result.update(changed=False, refusals=list(plan.refusals), gaps=list(plan.gaps), notes=list(plan.notes))
        late = overdue(plan.judgement.hazards, dt.datetime.now(dt.UTC).date())
        if late:
            result["warnings"] = late
        if plan.refusals or gaps:
            result.update(failed=True, msg=explain_refusals(plan.refusals, gaps))
            return result
        if plan.gaps:
            self._display.display(explain_refusals((), plan.gaps))
        result.update(plans=dict(plan.hosts), document=plan.document())
        return result
