# SPDX-License-Identifier: Apache-2.0
"""From what was decided to the launch description, and the check of its flags against the pinned engine's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.engine_flags import flag_name
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch import commands
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_description import (
    SETTINGS,
    Command,
    LaunchDescription,
    LaunchHost,
    ranked_hosts,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_parts import settings_arguments
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.arguments import (
    check_arguments,
    check_environment,
    to_refusals,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.launch_rules import check_launch
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.choices import Settled
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.knowledge import Knowledge
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals, suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of

REFUSALS = {
    "engine.schema": "Every flag is checked against the engine's own parser; without its schema a plan cannot promise "
    "that the engine starts.",
}

VENV = "/opt/venvs/vllm"
_EXPERT_PARALLEL = {"vllm": ["--enable-expert-parallel"]}


def _describe(choices: Settled, hosts: Sequence[LaunchHost], **more: Any) -> LaunchDescription:
    serving = choices.serving
    settings = {key: value for key, value in serving.settings.items() if key != "expert_parallel"}
    experts = _EXPERT_PARALLEL.get(engine_of(choices.stack)[0], []) if serving.settings.get("expert_parallel") else []
    fields: dict[str, Any] = {
        "profile": serving.profile,
        "runtime": serving.runtime,
        "version": engine_of(choices.stack)[1],
        "hosts": tuple(hosts),
        "head": choices.head.name,
        "image": choices.image,
        "venv": (choices.stack.get("venv") or {}).get("path") or VENV,
        "model_directory": "/",
        "served_name": serving.served_name,
        "tensor_parallel": serving.tensor_parallel,
        "pipeline_parallel": serving.pipeline_parallel,
        "gpus_per_host": choices.hardware["gpus"],
        "listen": serving.listen,
        "port": serving.port,
        "max_model_len": serving.max_model_len,
        "gpu_memory_utilization": serving.utilisation,
        "flags": (*experts, *serving.flags),
        "rdma": choices.fabric.rdma,
        **settings,
        **more,
    }
    return LaunchDescription(**fields)


def engine_flags(choices: Settled) -> list[str]:
    """What the operator's settings and flags are on the engine's command line."""
    described = _describe(choices, [LaunchHost(choices.head.name)])
    return [*settings_arguments(described), *described.flags]


def launch(
    choices: Settled,
    nodes: Mapping[str, Mapping[str, Any]],
    roles: Mapping[str, Mapping[str, Any]],
    refusals: Refusals,
) -> dict[str, list[Command]]:
    """Every host's commands. `nodes` say how the ranks reach each other, `roles` are each host's role variables."""
    server, ray = roles[choices.head.name]["inference_server"], roles[choices.head.name]["ray_cluster"]
    hosts = ranked_hosts([{"name": name, **node} for name, node in nodes.items()], choices.head.name)
    more: dict[str, Any] = {
        "image": server["inference_server_image"] or None,
        "model_directory": server["inference_server_model_directory"],
        "served_name": server["inference_server_served_name"],
        "listen": server["inference_server_listen"],
        "port": server["inference_server_port"],
        "environment": server.get("inference_server_environment") or {},
    }
    if ray:
        more |= {
            "ray_port": ray["ray_cluster_port"],
            "ray_cpus": ray.get("ray_cluster_cpus", 1),
            "ray_object_store_bytes": ray.get("ray_cluster_object_store_bytes", 1073741824),
            "ray_worker_ports": ray.get("ray_cluster_worker_ports", "20000-24999"),
        }
    if list(server["inference_server_flags"]) != engine_flags(choices):  # the operator's own list replaces the plan's
        more |= {**dict.fromkeys(SETTINGS), "flags": tuple(map(str, server["inference_server_flags"]))}
    description = _describe(choices, hosts, **more)
    if not check_launch(description, refusals):
        return {}
    return {host.name: commands(description, host.name) for host in choices.hosts}


def check_engine(
    choices: Settled, launched: Mapping[str, Sequence[Command]], knowledge: Knowledge, refusals: Refusals
) -> None:
    """Every flag of every command against the pinned engine's own schema, and the environment against what is gone."""
    name, version = engine_of(choices.stack)
    try:
        schema = knowledge.schema(name, str(version)) if version else None
    except CatalogError as error:
        refusals.add(
            "engine.schema",
            error.problems[0],
            "a schema is what `python -m firstlight.schemas` writes",
            "generate the schema again, see docs/engines.md",
        )
        return
    if schema is None:
        refusals.add(
            "engine.schema",
            f"stack {choices.stack['name']} pins {name} {version or 'without a version'}",
            f"the catalog has the flags of {', '.join(knowledge.schemas)}",
            f"{suggest(f'{name}=={version}', knowledge.schemas)} Or generate the schema, see docs/engines.md",
        )
        return
    for argv in dict.fromkeys(
        tuple(command["engine_argv"]) for one in launched.values() for command in one if command["name"] == "server"
    ):
        _check_twice(argv, refusals)
        to_refusals(check_arguments(schema, argv, knowledge.replaced), refusals)
    names = sorted({variable for one in launched.values() for command in one for variable in command["env"]})
    to_refusals(check_environment(names, knowledge.replaced, name, version), refusals)


def _check_twice(argv: Sequence[str], refusals: Refusals) -> None:
    names = [name for word in argv if (name := flag_name(word))]
    for name in sorted({name for name in names if names.count(name) > 1}):
        refusals.add(
            "serving.flags",
            f"{name} is set {names.count(name)} times",
            "a setting stands once, in firstlight_serving or in firstlight_serving.flags",
            f"take {name} out of firstlight_serving.flags",
        )
