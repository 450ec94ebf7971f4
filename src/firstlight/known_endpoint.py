# SPDX-License-Identifier: Apache-2.0
"""Find out how to query a planned cluster's endpoint, from its plan and the controller's files."""

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
    """Return the endpoint's client settings for these arguments. Raises UsageError."""
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
    """Print what another client needs, without any secret."""
    for line in help_.lines():
        print(safe(line))
