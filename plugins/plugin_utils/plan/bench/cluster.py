# SPDX-License-Identifier: Apache-2.0
"""A cluster as those see it who measure or ask it: its plans, its server, and where the results are kept."""

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
    """The plan of every host, in the plan's own order, out of the variable that has it."""
    hostvars = variables["hostvars"]
    own = hostvars[variables["inventory_hostname"]][name]
    return {host: hostvars[host][name] for host in own["cluster"]["hosts"]}


def head_of(plans: Mapping[str, Mapping[str, Any]]) -> str:
    return str(next(iter(plans.values()))["cluster"]["head"])


def sources_of(variables: Mapping[str, Any]) -> list[str]:
    """The inventories."""
    return [str(one) for one in variables.get("ansible_inventory_sources") or ()]


def cluster_of(plans: Mapping[str, Mapping[str, Any]], variables: Mapping[str, Any]) -> str:
    """What the cluster is called on the controller."""
    front = plans[head_of(plans)]["roles"].get("endpoint") or {}
    return str(front.get("endpoint_cluster") or "") or cluster_name(sources_of(variables))


def catalogs_of(variables: Mapping[str, Any]) -> list[str]:
    """The catalogs, the site's own first."""
    # Of the host's own variables: those of a task still have their templates in them.
    listed = variables["hostvars"][variables["inventory_hostname"]].get("firstlight_catalog")
    return catalog_directories({"firstlight_catalog": listed} if listed else {}, PlanErrors())


def server_url(plan: Mapping[str, Any]) -> str:
    """Where the head's server is asked on the head."""
    server = plan["roles"]["inference_server"]
    listen = str(server["inference_server_listen"])
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)  # noqa: S104 - recognised, not bound
    return f"http://{endpoint(address, int(server['inference_server_port']))}"


def write_document(path: str | Path, document: Mapping[str, Any]) -> None:
    """For its owner alone, as a whole or not at all."""
    place = Path(path)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(str(place), json.dumps(document, indent=1) + "\n", 0o600)


def unusable_place(error: OSError, results: str) -> str:
    """What an operator is told of a place where results cannot be kept or read."""
    return (
        f"{error.filename} cannot be used ({error.strerror}), expected a place of your own for the {results}, or the "
        "file that you named: correct it"
    )


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def run_name(moment: datetime.datetime) -> str:
    """What a run is called that began then."""
    return f"{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
