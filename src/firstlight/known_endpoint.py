# SPDX-License-Identifier: Apache-2.0
"""How the endpoint of a planned cluster is asked: from its plan, and from what the controller keeps."""

from __future__ import annotations

import argparse

from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import (
    ClientHelp,
    NoEndpointError,
    planned_help,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan

from firstlight.console import safe
from firstlight.errors import UsageError


def find_help(plan: ClusterPlan, arguments: argparse.Namespace) -> ClientHelp:
    """How the cluster of these arguments is asked; raises UsageError."""
    head = plan.cluster.get("head")
    if plan.errors or not head:
        raise UsageError("the plan of this inventory is refused: see `firstlight plan` with the same options")
    try:
        return planned_help(
            plan.hosts[head]["roles"], head, arguments.inventory, model=arguments.model or "", key=arguments.key
        )
    except NoEndpointError as error:
        raise UsageError(str(error)) from error


def show_how(help_: ClientHelp) -> None:
    """What another client needs, without a secret in it."""
    for line in help_.lines():
        print(safe(line))
