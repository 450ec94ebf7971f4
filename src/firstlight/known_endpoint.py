# SPDX-License-Identifier: Apache-2.0
"""How the endpoint of a planned cluster is asked: from its plan, and from what the controller keeps."""

from __future__ import annotations

import argparse
from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import (
    ClientHelp,
    NoEndpointError,
    cluster_name,
    help_of,
    state_directory,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan

from firstlight.console import safe
from firstlight.errors import FirstlightError

SERVER = "inference_server"


def find_help(plan: ClusterPlan, arguments: argparse.Namespace) -> ClientHelp:
    """How the cluster of these arguments is asked; raises FirstlightError."""
    head = plan.cluster.get("head")
    if plan.refusals or not head:
        raise FirstlightError("the plan of this inventory is refused: see `firstlight plan` with the same options")
    roles = plan.hosts[head]["roles"]
    own = roles.get("endpoint") or {}
    directory = (
        Path(own["endpoint_client_directory"]).expanduser()
        if own.get("endpoint_client_directory")
        else state_directory(own.get("endpoint_cluster") or cluster_name(arguments.inventory))
    )
    served = str((roles.get(SERVER) or {}).get("inference_server_served_name") or "")
    try:
        return help_of(roles, arguments.model or served, head, directory, arguments.key)
    except NoEndpointError as error:
        raise FirstlightError(str(error)) from error


def show_how(help_: ClientHelp) -> None:
    """What another client needs, without a secret in it."""
    rows = {
        "address": help_.url,
        "model": help_.model,
        "key": str(help_.files.key(help_.key)),
        **({"authority": str(help_.files.authority)} if help_.own_authority else {}),
    }
    for name, value in rows.items():
        print(f"{name.ljust(10)} {safe(value)}")
    print(f"\n{safe(help_.curl())}")
