# SPDX-License-Identifier: Apache-2.0
"""Match measurements to the current plan, as planned or with the ports found on the hosts. Pure functions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.results import configuration_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.values import at
from ansible_collections.firstlight.cluster.plugins.plugin_utils.verification import resolved

Plans = Mapping[str, Mapping[str, Any]]


def known_plans(plans: Plans, observations: Mapping[str, Any]) -> list[str]:
    """Return the digests by which measurements identify these plans: a benchmark of site.yml has the found ports."""
    refined = {host: _refined(plan, observations.get(host)) for host, plan in plans.items()}
    return list(dict.fromkeys(configuration_of(one)["plan_sha256"] for one in (plans, refined)))


def is_of(document: Mapping[str, Any], plans: Container[Any]) -> bool:
    """Return whether one of these plans was measured, according to the document's configuration."""
    return at(document, "configuration", "plan_sha256") in plans


def preferred(documents: Iterable[Mapping[str, Any]], plans: Container[Any]) -> Mapping[str, Any] | None:
    """Return the first document of one of these plans, else the first of all: a trial has another plan."""
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
        return plan  # the host returned something that `observe` never does
    return found
