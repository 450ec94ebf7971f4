# SPDX-License-Identifier: Apache-2.0
"""Which measurements are of today's plan: by the plan on paper, or by that with the ports that the hosts have. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.results import configuration_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.values import at
from ansible_collections.firstlight.cluster.plugins.plugin_utils.verification import resolved

Plans = Mapping[str, Mapping[str, Any]]


def known_plans(plans: Plans, observations: Mapping[str, Any]) -> list[str]:
    """The SHA-256 by which measurements name these plans: a benchmark of site.yml has the ports that were found."""
    refined = {host: _refined(plan, observations.get(host)) for host, plan in plans.items()}
    return list(dict.fromkeys(configuration_of(one)["plan_sha256"] for one in (plans, refined)))


def is_of(document: Mapping[str, Any], plans: Container[Any]) -> bool:
    """Whether one of these plans was measured: its configuration says so."""
    return at(document, "configuration", "plan_sha256") in plans


def preferred(documents: Iterable[Mapping[str, Any]], plans: Container[Any]) -> Mapping[str, Any] | None:
    """The first document that is of one of these plans, or without such a one the first: a trial is of another plan."""
    first: Mapping[str, Any] | None = None
    for document in documents:
        if is_of(document, plans):
            return document
        first = first or document
    return first


def _refined(plan: Mapping[str, Any], observation: Any) -> Mapping[str, Any]:
    if not observation:
        return plan
    try:
        found: Mapping[str, Any] = resolved(plan, observation)["plan"]
    except (ValueError, TypeError, LookupError, AttributeError):
        return plan  # a host that answers what `observe` never says
    return found
