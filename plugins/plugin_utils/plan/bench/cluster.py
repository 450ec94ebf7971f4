# SPDX-License-Identifier: Apache-2.0
"""A cluster as benchmarks and clients see it: its plans, its server, and where results are kept."""

from __future__ import annotations

import datetime
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.host import write_file
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import cluster_name
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import endpoint
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planning import catalog_directories

Plans = dict[str, Mapping[str, Any]]


def plans_of(variables: Mapping[str, Any], name: str = "firstlight_plan") -> Plans:
    """Return the plans of all hosts, in the plan's own order, from the variable that holds them."""
    hostvars = variables["hostvars"]
    own = hostvars[variables["inventory_hostname"]][name]
    return {host: hostvars[host][name] for host in own["cluster"]["hosts"]}


def head_of(plans: Mapping[str, Mapping[str, Any]]) -> str:
    return str(next(iter(plans.values()))["cluster"]["head"])


def sources_of(variables: Mapping[str, Any]) -> list[str]:
    """Return the inventory sources of the run."""
    return [str(one) for one in variables.get("ansible_inventory_sources") or ()]


def cluster_of(plans: Mapping[str, Mapping[str, Any]], variables: Mapping[str, Any]) -> str:
    """Return the name of the cluster on the controller."""
    front = plans[head_of(plans)]["roles"].get("endpoint") or {}
    return str(front.get("endpoint_cluster") or "") or cluster_name(sources_of(variables))


def catalogs_of(variables: Mapping[str, Any]) -> list[str]:
    """Return the catalog directories, the site's own first."""
    # Read from hostvars: the variables of a task still contain unrendered templates.
    listed = variables["hostvars"][variables["inventory_hostname"]].get("firstlight_catalog")
    return catalog_directories({"firstlight_catalog": listed} if listed else {}, PlanErrors())


def server_url(plan: Mapping[str, Any]) -> str:
    """Return the URL at which the head reaches its own server."""
    server = plan["roles"]["inference_server"]
    listen = str(server["inference_server_listen"])
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)  # noqa: S104 - recognised, not bound
    return f"http://{endpoint(address, int(server['inference_server_port']))}"


def write_document(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write a document atomically, readable by its owner only."""
    place = Path(path)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(str(place), json.dumps(document, indent=1) + "\n", 0o600)


def unusable_place(error: OSError, results: str) -> str:
    """Return the error message for a directory or file in which results cannot be kept or read."""
    return (
        f"{error.filename} cannot be used ({error.strerror}), expected a path that you can use for the "
        f"{results}, or the file that you named: correct it"
    )


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def run_name(moment: datetime.datetime) -> str:
    """Return the name of a run that began at this moment."""
    return f"{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
