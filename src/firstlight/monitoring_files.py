# SPDX-License-Identifier: Apache-2.0
"""Generate the files of a monitoring host: scrape targets, alert rules and dashboard."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors, explain_errors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.rules import rules_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.scrape import (
    Target,
    render,
    scrape_document,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.monitoring_intent import (
    Monitoring,
    listen_address,
    read_monitoring,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.targets import read_targets

from firstlight.dashboard import dashboard_json

SCRAPE_NAME, RULES_NAME, DASHBOARD_NAME = "prometheus.yml", "firstlight-rules.yml", "dashboard.json"


def files(hosts: Sequence[HostIntent], cluster: str) -> tuple[dict[str, str], str]:
    """Return the files by name, and an error message if there are none."""
    errors = PlanErrors()
    intent = hosts[0].intent if hosts else {}
    monitoring = read_monitoring(intent, hosts, errors) or Monitoring()
    wanted = read_targets(intent, errors)
    if not hosts:
        errors.add("inventory.empty", "group cluster has no host", "a cluster has hosts", "check the inventory")
    elif not monitoring.hosts and not errors:
        errors.add(
            "monitoring.hosts",
            "firstlight_monitoring.hosts is not set",
            "without it the nodes can be scraped only from themselves",
            "set firstlight_monitoring in group_vars/all.yml: {hosts: [ADDRESS]}, and run site.yml",
        )
    if errors:
        return {}, explain_errors(errors.found)
    targets = [
        Target(
            host.name, listen_address(host) or "", _port(host, monitoring.port), "head" if host.is_head else "worker"
        )
        for host in hosts
    ]
    return {
        SCRAPE_NAME: render(scrape_document(targets, cluster, RULES_NAME), "Every node of the cluster, one page each."),
        RULES_NAME: render(rules_document(wanted, cluster), "What each alert asks for is in its description."),
        DASHBOARD_NAME: dashboard_json(wanted),
    }, ""


def _port(host: HostIntent, default: int) -> int:
    text = str(host.variables.get("monitoring_port", default))
    return int(text) if text.isdecimal() else default
