# SPDX-License-Identifier: Apache-2.0
"""Every reason for which a plan is refused, collected from the modules that refuse, and its page for the operator."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.firstlight.cluster.plugins.plugin_utils.advice import estimate
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench import cost
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines import (
    arguments,
    combinations,
    environment,
    launch_rules,
    settings,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fit import checks, hazards, legality
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent import (
    bench,
    choices,
    endpoint,
    exposed,
    fabric,
    firewall,
    flags,
    image,
    keys,
    model,
    monitoring,
    names,
    power,
    profile,
    quality,
    rack,
    reach,
    recipe,
    repeated_keys,
    serving,
    sources,
    targets,
    weights,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.models import config
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan import (
    fabric_plan,
    judgement,
    launch,
    launch_settings,
    planner,
    planning,
    role_values,
    role_variables,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks import addresses, document, expand, nodes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks import checks as rack_checks
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks import driver_rules, rules

_MODULES = (
    choices,
    keys,
    names,
    repeated_keys,
    reach,
    image,
    recipe,
    model,
    fabric,
    fabric_plan,
    firewall,
    exposed,
    profile,
    serving,
    endpoint,
    flags,
    sources,
    weights,
    power,
    rack,
    monitoring,
    targets,
    bench,
    quality,
    document,
    addresses,
    nodes,
    rack_checks,
    expand,
    rules,
    driver_rules,
    config,
    judgement,
    legality,
    checks,
    cost,
    estimate,
    hazards,
    launch,
    launch_rules,
    launch_settings,
    settings,
    arguments,
    combinations,
    environment,
    role_values,
    role_variables,
    planner,
    planning,
)


def all_refusals() -> dict[str, str]:
    """Identifier -> why the rule exists, in the order of the identifiers. An identifier belongs to one module."""
    found: dict[str, str] = {}
    for module in _MODULES:
        refusals: Mapping[str, str] = module.REFUSALS
        twice = sorted(found.keys() & refusals.keys())
        if twice:
            raise ValueError(f"{module.__name__} defines {', '.join(twice)}, which another module already does")
        found |= refusals
    return dict(sorted(found.items()))


def page() -> str:
    """docs/refusals.md."""
    lines = [
        "# Refusals",
        "",
        "Whatever can be known wrong before a host is touched is refused by the plan, all of it at once. Each refusal",
        "has a stable identifier, what was found, the rule, and what to change. `firstlight plan --json` gives them as",
        "a list and ends with status 2.",
        "",
        "`python -m firstlight.refusals_page` writes this page out of the modules under `plugins/plugin_utils/`.",
    ]
    area = ""
    for identifier, why in all_refusals().items():
        if identifier.split(".")[0] != area:
            area = identifier.split(".")[0]
            lines += ["", f"## {area}", "", "| identifier | why it is a rule |", "| --- | --- |"]
        lines.append(f"| `{identifier}` | {why} |")
    return "\n".join(lines) + "\n"
