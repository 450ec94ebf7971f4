# SPDX-License-Identifier: Apache-2.0
"""Compute the plan: intent and catalog in, one document out. Pure; no host is contacted.

Everything that can be found invalid before a host is touched is refused here, all of it at once, each error with
what was found, the rule, and what to change.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.evidence import Evidence
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.expected import expected
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.verdict import evaluate
from ansible_collections.firstlight.cluster.plugins.plugin_utils.exposed_roles import leftover_request
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanError, PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import (
    RACK,
    SECRET_ENDINGS,
    HostIntent,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import Command
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.assessment import Assessment, assess, readings
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.bench.intent import read_bench
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.bench.planned import bench_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint_variables import check_endpoint
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.exposed import check_exposed
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.variables import unwanted
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.variables import (
    fabric_facts,
    fabric_of,
    paper_environment,
    port_request,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.hosts.reach import check_reach
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.image.variables import check_ray_layer
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.inventory_names import check_names
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import PlannerContext
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import (
    ClusterIntent,
    ResolvedIntent,
    check_intent,
    choose,
    resolve_intent,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.role_values import check_role_values
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.role_variables import (
    EngineFacts,
    check_role_variables,
    node_of,
    role_variables,
    shared_facts,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.launch import check_engine, launch
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.quality import read_quality
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.rebuild import standing_notes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.served import served
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.startup import Startup, startup
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.on_host import decided_on_host
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import (
    ROLES,
    desired_state,
    observation_request,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.weights.variables import weights_notes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.budget import refused_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.driver_rules import (
    check_driver_set,
    guest_notes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.rules import check_stack

ERRORS = {
    "inventory.empty": "Without hosts there is nothing to plan.",
    "inventory.unreadable": "Ansible itself could not read the inventory.",
    "inventory.vault": "What cannot be decrypted for the plan could not be decrypted for the hosts either.",
    "catalog.unusable": "A catalog entry that is misspelt or incomplete would be used in part.",
    "role.state": "A role's variables must describe a state that a host can have.",
}

_ECHOES = {
    "serving.parallel": {"world.size", "launch.world"},
    "serving.utilisation": {"fit.utilisation"},
    "serving.context": {"fit.context", "fit.beyond-model"},
    "flags.value": {"fit.arguments"},
    "serving.listen": {"exposed.engine"},
    "launch.listen": {"exposed.engine"},
    "image.unpinned": {"launch.image"},
    "image.build": {"launch.image"},
    "image.recipe": {"launch.image"},
    "image.base": {"launch.image"},
    "intent.path": {"launch.path", "role.state"},
    "intent.indentation": {"fit.context", "fit.beyond-model"},
    "inventory.group": {"inventory.empty", "head.missing"},
    "inventory.variables": {"intent.missing", "fabric.missing", "exposed.hosts"},
    "intent.type": {"fit.context", "launch.hosts"},
    "host.port": {"role.state"},
    "role.value": {"role.state"},
    "fabric.overlap": {"role.state"},
}
"""By error id, the ids of later errors that merely repeat an error of the intent."""

_SERVING_ROLES = ("inference_image", "ray_cluster", "inference_server", "supervisor", "endpoint")
"""Roles that have nothing to do where nothing can be launched."""

_NOT_SHARED = (
    *("fabric_network", "ray_cluster", "inference_server", "supervisor"),
    *("inference_image", "model_weights"),
)
"""Roles whose desired state is not cached across hosts: their variables name the host, so that no two hosts agree, or
list all hosts, which takes longer to compare than to compute the state."""

Plan = dict[str, Any]


@dataclass(frozen=True)
class ClusterPlan:
    """The plan of a cluster; if it has errors, nothing is to be done."""

    hosts: Mapping[str, Plan]
    cluster: Mapping[str, Any]
    errors: Sequence[PlanError]
    missing_inputs: Sequence[PlanError] = ()
    """What only the operator knows: the plan is valid without it, but nothing can be run."""
    notes: Sequence[str] = ()
    assessment: Assessment = field(default_factory=Assessment)
    served: Mapping[str, Any] = field(default_factory=dict)
    """Model, engine, parallelism and addresses; empty if the intent does not say enough."""
    startup: Mapping[str, Any] = field(default_factory=dict)
    """How long a start may take, with its parts; empty if the intent does not say enough."""
    bench: Mapping[str, Any] = field(default_factory=dict)
    """The benchmarks of firstlight_bench, with the expected figures; empty if it is not set."""

    def document(self) -> dict[str, Any]:
        """Return the whole plan as plain data: what `firstlight plan --json` prints."""
        return {
            "errors": list(self.errors),
            "missing_inputs": list(self.missing_inputs),
            "notes": list(self.notes),
            "cluster": dict(self.cluster),
            "served": dict(self.served),
            "hosts": {name: plan["host"] | {"desired": plan["desired"]} for name, plan in self.hosts.items()},
            "fit": self.assessment.fit or {**refused_document(PlanErrors()), "fits": None},
            "startup": dict(self.startup),
            "expected": self.assessment.expected,
            "advice": list(self.assessment.advice),
            "hazards": [dict(one) for one in self.assessment.hazards],
            **({"bench": dict(self.bench)} if self.bench else {}),
        }

    def verdict(
        self, document: Mapping[str, Any], observations: Mapping[str, Mapping[str, Any] | None] | None = None
    ) -> dict[str, Any]:
        """Evaluate a benchmark's result document against this plan; `observations` of the hosts explain a slow one."""
        served = self.assessment.served
        rails = served.hardware["fabric"].get("rails") if served else None
        return evaluate(
            document,
            lambda workload, streams, rate: expected(served, workload, streams=streams, rate=rate),
            self.assessment.envelopes,
            Evidence(self.hosts, observations or {}, rails),
        )


def plan_cluster(
    intent: Mapping[str, Any],
    hosts: Sequence[HostIntent],
    planner_context: PlannerContext,
    *,
    config: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    errors: PlanErrors | None = None,
) -> ClusterPlan:
    """Return a plan for every host; with errors, the errors and an empty plan for every host.

    `config` is the config.json the intent names, `files` the keys and locks it names, and `errors` the errors found
    before.
    """
    errors = PlanErrors() if errors is None else errors
    missing_inputs = PlanErrors()
    check_intent(intent, hosts, errors)
    check_role_variables(hosts, planner_context.roles, errors)
    check_role_values(hosts, planner_context.roles, errors)
    check_names(hosts, {name for role in planner_context.roles.values() for name in role.variables}, errors)
    reached = check_reach(hosts, errors)
    decided = choose(intent, planner_context.catalog, hosts, config, errors, missing_inputs, files)
    check_exposed(decided, errors)
    assessment = assess(decided, planner_context, errors)
    context = decided.serving.max_model_len or (decided.model or {}).get("context")
    bench = read_bench(intent, planner_context.workloads, context, errors)
    measured = bench_document(bench, assessment.served) if bench else {}
    read_quality(intent, errors)
    if assessment.serving is not None:
        decided = replace(decided, serving=assessment.serving)
    plans: dict[str, Plan] = {}
    launched: dict[str, list[Command]] = {}
    resolved = resolve_intent(decided)
    limits: Startup | None = None
    if resolved is not None:
        limits = startup(resolved, assessment.fit, assessment.shape)
        check_stack(
            resolved.stack,
            resolved.hardware,
            hosts=len(hosts),
            profile=resolved.serving.profile,
            fp8=assessment.fp8,
            cuda_graphs="--enforce-eager" not in resolved.serving.flags,
            errors=errors,
        )
        check_driver_set(
            resolved.stack,
            resolved.hardware,
            planner_context.catalog.get("sources", {}),
            errors,
            install=_installs(resolved),
        )
        if resolved.endpoint is not None:
            check_endpoint(resolved, resolved.endpoint, errors)
        check_ray_layer(resolved, errors)
        plans, launched = _host_plans(resolved, planner_context, assessment, limits, errors)
        for plan in plans.values() if measured else ():
            plan["bench"] = measured
        _check_lock(plans, resolved, missing_inputs)
    if decided.stack is not None:
        check_engine(decided.stack, decided.serving, launched, planner_context, errors)
    if errors:
        return refused(hosts, errors, decided, assessment, launched)
    guest = guest_notes(resolved.stack, resolved.hardware, install=_installs(resolved)) if resolved else []
    notes = [*decided.notes, *reached, *assessment.notes, *guest, *standing_notes(decided.serving.profile)]
    notes += weights_notes(resolved) if resolved is not None else []
    notes += limits.notes() if limits else []
    shown = served(resolved, plans[resolved.head.name]["roles"]) if resolved else {}
    started = limits.document() if limits else {}
    cluster = _cluster(hosts, decided, assessment)
    return ClusterPlan(plans, cluster, [], missing_inputs.found, notes, assessment, shown, started, measured)


def _installs(resolved: ResolvedIntent) -> bool | None:
    """Whether the operator has the driver installed on any host; None leaves it to the stack."""
    given = {
        host.variables["nvidia_driver_policy"] for host in resolved.hosts if "nvidia_driver_policy" in host.variables
    }
    return "install" in given if given else None


def _check_lock(plans: Mapping[str, Plan], resolved: ResolvedIntent, missing_inputs: PlanErrors) -> None:
    if any(_is_unlocked(plan["roles"]["engine_venv"]) for plan in plans.values()):
        missing_inputs.add(
            "venv.lock",
            f"stack {resolved.stack['name']} has its engine in a virtual environment, but no lock for it",
            "a virtual environment is installed from a lock with the hash of every wheel",
            "create one for your index (docs/venv.md), and set engine_venv_lock to its path",
        )


def _is_unlocked(variables: Mapping[str, Any] | None) -> bool:
    return variables is not None and not variables.get("engine_venv_lock_text")


def refused(
    hosts: Sequence[HostIntent],
    errors: PlanErrors,
    decided: ClusterIntent | None = None,
    assessment: Assessment | None = None,
    launched: Mapping[str, Sequence[Command]] | None = None,
) -> ClusterPlan:
    """Return a plan with nothing to do and its errors, plus whatever could be computed."""
    assessment = assessment or Assessment()
    cluster = _cluster(hosts, decided, assessment)
    plans: dict[str, Plan] = {
        host.name: {
            "cluster": cluster,
            "host": {
                "name": host.name,
                "is_head": host.is_head,
                "reach": _reach(host),
                "fabric": fabric_of(decided.fabric, index) if decided else [],
                "launch": list((launched or {}).get(host.name, ())),
            },
            "roles": {},
            "desired": {},
            "observe": {},
        }
        for index, host in enumerate(hosts)
    }
    said = {echo for error in errors.found for echo in _ECHOES.get(error["id"], ())}
    # "firstlight_serving.flags has --x" is what the launch calls "flags has --x".
    flags = {one["found"].removeprefix("firstlight_serving.") for one in errors.found if one["id"] == "serving.flags"}
    found = [
        error
        for error in errors.found
        if error["id"] not in said and not (error["id"].startswith("launch.") and error["found"] in flags)
    ]
    notes = [*(decided.notes if decided else ()), *assessment.notes]
    return ClusterPlan(plans, cluster, found, (), notes, assessment)


def _cluster(hosts: Sequence[HostIntent], decided: ClusterIntent | None, assessment: Assessment) -> dict[str, Any]:
    heads = [host.name for host in hosts if host.is_head]
    cluster: dict[str, Any] = {
        "head": heads[0] if len(heads) == 1 else None,
        "hosts": [host.name for host in hosts],
        "size": len(hosts),
    }
    if decided is None:
        return cluster
    for kind in ("hardware", "stack", "model"):
        entry = getattr(decided, kind)
        cluster[kind] = entry["name"] if entry else None
    engine, version = engine_of(decided.stack) if decided.stack else (None, None)
    return cluster | {
        "engine": engine,
        "engine_version": version,
        "profile": decided.serving.profile,
        "context": decided.serving.max_model_len or (decided.model or {}).get("context"),
        "kv_cache_dtype": assessment.kv_dtype,
    }


def _reach(host: HostIntent) -> dict[str, Any]:
    """Return how Ansible reaches the host; None leaves a value to SSH."""
    return {"address": host.address or host.name, "user": host.user, "port": host.port}


def _rack(host: HostIntent) -> str | None:
    place = host.intent.get(RACK)
    name = place.get("name") if isinstance(place, Mapping) else None
    return None if name is None else str(name)


def _host_plans(
    resolved: ResolvedIntent,
    planner_context: PlannerContext,
    assessment: Assessment,
    limits: Startup,
    errors: PlanErrors,
) -> tuple[dict[str, Plan], dict[str, list[Command]]]:
    fabrics = {host.name: fabric_of(resolved.fabric, index) for index, host in enumerate(resolved.hosts)}
    nodes = {host.name: node_of(resolved, index) for index, host in enumerate(resolved.hosts)}
    engine = engine_of(resolved.stack)[0]
    known = EngineFacts(planner_context.caches.get(engine, {}), planner_context.containers.get(engine, {}))
    shared = shared_facts(resolved, list(nodes.values()))
    environment, expected = paper_environment(resolved), readings(resolved.hardware, resolved.stack)
    start = limits.document()
    roles = {
        host.name: role_variables(resolved, planner_context.roles, index, limits, known, shared)
        for index, host in enumerate(resolved.hosts)
    }
    launched = launch(resolved, nodes, roles, errors)
    order = [resolved.head.name, *(host.name for host in resolved.hosts if host is not resolved.head)]
    ranks = {name: rank for rank, name in enumerate(order)}
    cluster = _cluster(resolved.hosts, resolved, assessment)
    known_states: dict[str, _Wanted] = {}
    wanted = {
        host.name: _wanted(host, roles[host.name], bool(launched), known_states, errors) for host in resolved.hosts
    }
    plans: dict[str, Plan] = {
        host.name: {
            "cluster": cluster,
            "host": {
                "name": host.name,
                "rank": ranks[host.name],
                "is_head": host.is_head,
                "reach": _reach(host),
                "rack": _rack(host),
                "fabric": fabrics[host.name],
                "environment": environment,
                "launch": launched.get(host.name, []),
                "expected": expected,
            },
            "startup": start,
            "fabric": fabric_facts(resolved, host.variables),
            "roles": roles[host.name],
            "given": sorted(name for name in host.variables if not name.endswith(SECRET_ENDINGS)),
            "desired": {role: one.state for role, one in wanted[host.name].items()},
            "unwanted": unwanted(resolved),
        }
        for host in resolved.hosts
    }
    if not errors:
        for name, plan in plans.items():
            shown = plan["host"]
            shown["on_host"] = decided_on_host(plan["roles"], plan["desired"], shown["fabric"], shown["environment"])
            plan["observe"] = {
                role: one.request if one.state else leftover_request(role) for role, one in wanted[name].items()
            }
            # Which ports exist, and what is behind them, is known only after the host has been observed.
            ports = port_request(resolved, plan["desired"]["fabric_network"])
            plan["observe"]["fabric_network"] = {**plan["observe"]["fabric_network"], "fabric": ports}
    return plans, launched


@dataclass(frozen=True)
class _Wanted:
    """The desired state of a role, shared by the hosts that give it the same variables; it must not be modified."""

    role: str
    variables: Mapping[str, Any]
    state: dict[str, Any]

    @functools.cached_property
    def request(self) -> dict[str, Any]:
        """The observation request for such a host."""
        return observation_request(self.role, self.variables, self.state)


def _wanted(
    host: HostIntent,
    roles: Mapping[str, Mapping[str, Any] | None],
    serves: bool,
    known: dict[str, _Wanted],
    errors: PlanErrors,
) -> dict[str, _Wanted]:
    """Return the desired state of each role on the host; empty for a role that has nothing to do there.

    `known` caches the states of earlier hosts: most roles get the same variables on all of them.
    """
    wanted = {role: _Wanted(role, {}, {}) for role in ROLES}
    for role in ROLES:
        variables = roles[role]
        if variables is None:
            continue
        if (role in _SERVING_ROLES and not serves) or (role == "engine_venv" and _is_unlocked(variables)):
            continue
        key = "" if role in _NOT_SHARED else f"{role} {variables!r}"
        if key in known:
            wanted[role] = known[key]
            continue
        try:
            wanted[role] = _Wanted(role, variables, desired_state(role, variables))
            if key:
                known[key] = wanted[role]
        except KeyError as error:
            errors.add(
                "role.state",
                f"role {role} on {host.name} lacks the variable {error}",
                "a planned role has all its variables",
                f"set {error} in the inventory",
            )
        except (ValueError, TypeError, AttributeError) as error:
            errors.add(
                "role.state",
                f"role {role} on {host.name}: {error}",
                "a role's variables describe a state that a host can have",
                f"correct the variables of role {role} in the inventory",
            )
    return wanted
