# SPDX-License-Identifier: Apache-2.0
"""Replicas on several nodes behind one address: Ray Serve places them, restarts lost ones, and balances the load."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    RAY_CONTAINER,
    RAY_SERVE_SETTINGS_PATH,
    memory_of,
    mount,
    token_environment,
)

from .description import Command, LaunchDescription, LaunchHost, endpoint
from .parts import docker_command, merged_environment, settings_arguments
from .ray_serve_program import SERVE_PROGRAM
from .values import Problem, Problems
from .vllm import base_environment

PROGRAM_PATH = "/usr/local/lib/firstlight/ray_serve.py"

_NODE_OWN = ("VLLM_HOST_IP",)
"""Variables that differ between nodes: a replica inherits them from the Ray node it runs on."""

_DEPLOYMENT = {
    # A dead replica is removed at the first request that meets it. One whose engine died keeps failing requests until
    # three health checks in a row have failed.
    "health_check_period_s": 2,
    # An engine that prefills a long prompt answers late but is healthy.
    "health_check_timeout_s": 30,
    "graceful_shutdown_timeout_s": 10,
    "graceful_shutdown_wait_loop_s": 1,
    # After three failures it is reported by the supervisor, instead of Ray retrying silently.
    "max_constructor_retry_count": 3,
}
"""Deployment options of Ray Serve besides the number of replicas."""


def serve_server(description: LaunchDescription, host: LaunchHost) -> Command:
    """Return the command of the program. It serves no requests: the HTTP proxy is a Ray actor on the same host."""
    env = merged_environment(
        base_environment(description, host),
        {"RAY_ADDRESS": endpoint(host.address, description.ray_port), **token_environment()},
        description.environment,
    )
    # A driver finds its raylet among the local processes and talks to it through the session directory.
    beside = [f"--pid=container:{RAY_CONTAINER}", f"--volumes-from={RAY_CONTAINER}"]
    command = docker_command(
        description,
        ["python3", PROGRAM_PATH, RAY_SERVE_SETTINGS_PATH],
        env,
        options=[*beside, mount(PROGRAM_PATH), mount(RAY_SERVE_SETTINGS_PATH)],
        files={PROGRAM_PATH: SERVE_PROGRAM, RAY_SERVE_SETTINGS_PATH: settings_file(description, host)},
        with_key=True,
        memory=memory_of(RAY_CONTAINER),
    )
    # In the engine's own syntax, so that the arguments are checked like those of every other profile.
    return {**command, "engine_argv": engine_arguments(description)}


def engine_arguments(description: LaunchDescription) -> list[str]:
    """Return a replica's engine arguments, written as a command of its own."""
    return [
        "vllm",
        "serve",
        description.model_directory,
        f"--served-model-name={description.served_name}",
        f"--tensor-parallel-size={description.tensor_parallel}",
        "--distributed-executor-backend=ray",
        *_own_arguments(description),
    ]


def settings_file(description: LaunchDescription, host: LaunchHost) -> str:
    """Render the file that the program reads."""
    return json.dumps(serve_settings(description, host), indent=2) + "\n"


def serve_settings(description: LaunchDescription, host: LaunchHost) -> dict[str, Any]:
    """Return what the program deploys, without secrets: the key comes from the root-only file, by the environment."""
    base = merged_environment(base_environment(description, host), description.environment)
    return {
        "served_name": description.served_name,
        "model_directory": description.model_directory,
        "replicas": description.replicas,
        "tensor_parallel": description.tensor_parallel,
        "arguments": _own_arguments(description),
        "environment": {name: value for name, value in base.items() if name not in _NODE_OWN},
        "listen": description.listen,
        "port": description.port,
        "nodes": [one.address for one in description.ordered],
        "join_timeout": description.join_timeout,
        "start_timeout": description.start_timeout or 900,
        "deployment": dict(_DEPLOYMENT),
    }


def _own_arguments(description: LaunchDescription) -> list[str]:
    return [*settings_arguments(description), *description.flags]


def ray_serve_problems(description: LaunchDescription) -> Problems:
    """Check that each replica has its GPUs on one host and all GPUs are used, so that Ray has only one placement."""
    each, hosts, parallel = description.gpus_per_host, len(description.hosts), description.tensor_parallel
    if description.pipeline_parallel > 1:
        yield Problem(
            "launch.world",
            f"pipeline parallel {description.pipeline_parallel} with profile ray-serve",
            "a replica is on one host, where tensor parallel is faster",
            "leave pipeline_parallel out, or use profile vllm-ray for one server over all hosts",
        )
    elif parallel > each or each % parallel:
        yield Problem(
            "launch.world",
            f"tensor parallel {parallel} with profile ray-serve on hosts of {each} GPUs",
            "the GPUs of a replica are on one host, and none of that host stays unused",
            f"set tensor_parallel to a divisor of {each}, or use profile vllm-ray for one server over all hosts",
        )
    elif description.replicas * parallel != hosts * each:
        yield Problem(
            "launch.replicas",
            f"{description.replicas} replicas of {parallel} GPUs on {hosts} x {each} GPUs",
            "replicas use all GPUs, so that the plan determines where each of them runs",
            f"use {hosts * each // parallel} replicas",
        )
