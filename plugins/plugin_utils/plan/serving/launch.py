# SPDX-License-Identifier: Apache-2.0
"""Build the launch description from a resolved intent, and check its flags against the pinned engine's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.arguments import (
    check_arguments,
    check_environment,
    to_errors,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.combinations import (
    ENGINE,
    check_combinations,
    check_devices,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.environment import (
    check_addresses,
    check_network,
    check_spelling,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.launch_rules import check_launch
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import EngineSchema
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.settings import check_twice
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.words import without_program
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.written import written
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import (
    PROFILES,
    Command,
    LaunchDescription,
    LaunchHost,
    ranked_hosts,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.parts import (
    merge_settings,
    settings_arguments,
    settings_document,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.static_fraction import (
    reserve_mib,
    static_fraction,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.translations import form_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import PlannerContext
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving import inference_server, ray_cluster
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.flags import PLANNED_FLAGS, refuse_planned
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.intent import Serving
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.launch_settings import check_settings_file
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of

ERRORS = {
    "engine.schema": "Every flag is checked against the engine's own parser; without its schema a plan cannot promise "
    "that the engine starts.",
}


def memory_share(resolved: ResolvedIntent) -> float | None:
    """Return the share of memory as the engine counts it: SGLang's excludes activations and CUDA graphs."""
    serving, hardware = resolved.serving, resolved.hardware
    memory = hardware.get("os_visible_mib" if hardware.get("unified") else "memory_mib")
    if serving.utilisation is None or engine_of(resolved.stack)[0] != "sglang" or not memory:
        return serving.utilisation
    settings = serving.settings
    reserve = reserve_mib(
        memory,
        serving.tensor_parallel * serving.pipeline_parallel,
        serving.tensor_parallel,
        settings.get("max_num_batched_tokens"),
        settings.get("max_num_seqs"),
        bool(settings.get("speculative")),
    )
    return static_fraction(serving.utilisation, memory, reserve)


def _describe(resolved: ResolvedIntent, hosts: Sequence[LaunchHost], **more: Any) -> LaunchDescription:
    serving = resolved.serving
    fields: dict[str, Any] = {
        "profile": serving.profile,
        "runtime": serving.runtime,
        "version": engine_of(resolved.stack)[1],
        "hosts": tuple(hosts),
        "head": resolved.head.name,
        "image": resolved.image or None,
        "venv": (resolved.stack.get("venv") or {}).get("path") or LaunchDescription.venv,
        "model_directory": "/",
        "served_name": serving.served_name,
        "tensor_parallel": serving.tensor_parallel,
        "pipeline_parallel": serving.pipeline_parallel,
        "gpus_per_host": resolved.hardware["gpus"],
        "replicas": serving.replicas,
        "listen": serving.listen,
        "port": serving.port,
        "max_model_len": serving.max_model_len,
        "gpu_memory_utilization": memory_share(resolved),
        "flags": serving.flags,
        "rdma": resolved.fabric.rdma,
        **serving.settings,
        **more,
    }
    return LaunchDescription(**fields)


def engine_flags(resolved: ResolvedIntent) -> list[str]:
    """Return the operator's settings and flags as words of the engine's command line."""
    described = _describe(resolved, [LaunchHost(resolved.head.name)])
    return [*settings_arguments(described), *described.flags]


def engine_settings(resolved: ResolvedIntent) -> dict[str, Any]:
    """Return the operator's settings as the engine's settings file; empty for an engine without one."""
    document = settings_document(_describe(resolved, [LaunchHost(resolved.head.name)]))
    merge_settings(document, resolved.serving.engine_settings)
    return document


def launch(
    resolved: ResolvedIntent,
    nodes: Mapping[str, Mapping[str, Any]],
    roles: Mapping[str, Mapping[str, Any]],
    errors: PlanErrors,
) -> dict[str, list[Command]]:
    """Return every host's commands. `nodes` say how the ranks reach each other, `roles` are each host's role variables.

    They are rendered by the roles' own functions, so that the plan shows what the units run.
    """
    server = roles[resolved.head.name]["inference_server"]
    environments = {name: _environment(roles[name], node) for name, node in nodes.items()}
    description = _describe(
        resolved,
        ranked_hosts(
            [{"name": name, **node, "environment": environments[name]} for name, node in nodes.items()],
            resolved.head.name,
        ),
        image=server["inference_server_image"] or None,
        model_directory=server["inference_server_model_directory"],
        served_name=server["inference_server_served_name"],
        listen=server["inference_server_listen"],
        port=server["inference_server_port"],
        environment=server.get("inference_server_environment") or {},
    )
    if PROFILES[resolved.serving.profile].engine != engine_of(resolved.stack)[0]:
        return {}  # refused with the stack
    check_twice(settings_document(description), resolved.serving.engine_settings, errors)
    if not check_launch(description, errors):
        return {}
    try:
        return {host.name: _of_roles(roles[host.name]) for host in resolved.hosts}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}  # refused where the same variables are turned into a state


def _environment(variables: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the environment of a host's ranks, including the operator's own variables."""
    ray, server = variables["ray_cluster"], variables["inference_server"]
    if ray:
        return dict(ray.get("ray_cluster_environment") or {})
    ranked = bool(server) and PROFILES[str(server.get("inference_server_profile"))].ranked
    return dict(server.get("inference_server_environment") or {}) if ranked else dict(node["environment"])


def _of_roles(variables: Mapping[str, Any]) -> list[Command]:
    ray = [ray_cluster.launch(variables["ray_cluster"])] if variables["ray_cluster"] else []
    return [*ray, *(inference_server.launch(variables["inference_server"]) if variables["inference_server"] else [])]


def check_engine(
    stack: Mapping[str, Any],
    serving: Serving,
    launched: Mapping[str, Sequence[Command]],
    planner_context: PlannerContext,
    errors: PlanErrors,
) -> None:
    """Check every flag of every command against the pinned engine's schema, and the environment for obsolete variables.

    If there are no commands, because something else is refused, the operator's own settings and flags are checked.
    """
    name, version = engine_of(stack)
    try:
        schema = planner_context.schema(name, str(version)) if version else None
    except CatalogError as error:
        errors.add(
            "engine.schema",
            error.problems[0],
            "a schema is generated by `python -m scripts.schemas`",
            "generate the schema again, see docs/engines.md",
        )
        return
    if schema is None:
        errors.add(
            "engine.schema",
            f"stack {stack['name']} pins {name} {version or 'without a version'}",
            f"the catalog has the flags of {', '.join(planner_context.schemas)}",
            suggest(
                f"{name}=={version}", planner_context.schemas, otherwise="generate the schema, see docs/engines.md"
            ),
        )
        return
    check_settings_file(name, version, serving, launched, planner_context, errors)
    _check_planned(schema, serving.flags, errors)
    rendered = dict.fromkeys(
        tuple(command["engine_argv"])
        for one in launched.values()
        for command in one
        # A container that only waits for the head's MPI runs no engine command.
        if command["name"].startswith("server") and command["engine_argv"]
    )
    for argv in rendered or [tuple(_without_launch(name, version, serving))]:
        _check_twice(schema, argv, errors)
        if name == ENGINE:
            check_combinations(written(schema, without_program(name, argv)), errors)
        to_errors(check_arguments(schema, argv, planner_context.replaced), errors)
    names = sorted({variable for one in launched.values() for command in one for variable in command["env"]})
    found = check_environment(names, planner_context.replaced, name, version)
    to_errors(found, errors)
    told = {one["argument"] for one in found}
    to_errors(check_spelling(one for one in names if one not in told), errors)
    ranks = serving.tensor_parallel * serving.pipeline_parallel // max(1, len(launched))
    for command in (command for one in launched.values() for command in one if serving.replicas == 1):
        check_devices(command["env"], ranks, errors)
    check_addresses({host: [command["env"] for command in one] for host, one in launched.items()}, errors)
    check_network((command["env"] for one in launched.values() for command in one), errors)


def _without_launch(engine: str, version: str | None, serving: Serving) -> list[str]:
    """Return the operator's settings and flags for this engine, as far as it can express them."""
    if engine != PROFILES[serving.profile].engine:
        return ["/model", *serving.flags]
    settings = {
        name: value for name, value in serving.settings.items() if form_of(engine, name, version).arguments is not None
    }
    described = LaunchDescription(
        profile=serving.profile,
        version=version,
        model_directory="/",
        served_name="",
        hosts=(),
        head="",
        flags=serving.flags,
        **settings,
    )
    return ["/model", *settings_arguments(described), *serving.flags]


def _check_planned(schema: EngineSchema, flags: Sequence[str], errors: PlanErrors) -> None:
    """Refuse a flag that the plan writes, under any of the engine's names for it."""
    for use in written(schema, flags).uses:
        for name in use.flag.names if use.flag else ():
            if name in PLANNED_FLAGS:
                refuse_planned(use.name, PLANNED_FLAGS[name], errors)
                break


def _check_twice(schema: EngineSchema, argv: Sequence[str], errors: PlanErrors) -> None:
    counted: dict[tuple[str, str | None], list[str]] = {}
    for use in written(schema, without_program(schema.engine, argv)).uses:
        if use.flag is not None and not use.flag.repeatable:
            counted.setdefault((use.flag.name, use.key), []).append(use.name)
    told = [one["found"] for one in errors.found if one["id"] in ("serving.flags", "launch.flags")]
    for (name, _), spelt in sorted(counted.items(), key=lambda item: item[0][0]):
        if len(spelt) > 1 and not any(f"has {one}" in found for found in told for one in spelt):
            errors.add(
                "serving.flags",
                f"{name} is set {len(spelt)} times ({', '.join(spelt)})",
                "a setting is written once, in firstlight_serving or in firstlight_serving.flags",
                f"take {spelt[-1]} out of firstlight_serving.flags",
            )
