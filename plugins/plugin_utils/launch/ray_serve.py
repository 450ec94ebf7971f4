# SPDX-License-Identifier: Apache-2.0
"""Replicas on several nodes behind one address: Ray Serve places them, brings a lost one back, and shares the load."""

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
"""What differs between nodes: a replica has it from the Ray node it lands on."""

_DEPLOYMENT = {
    # A dead replica is left out at the first request that meets it. One whose engine died below it goes on failing
    # requests until three checks in a row have seen it.
    "health_check_period_s": 2,
    # An engine that fills a long prompt answers late and is well.
    "health_check_timeout_s": 30,
    "graceful_shutdown_timeout_s": 10,
    "graceful_shutdown_wait_loop_s": 1,
    # What fails three times, fails: the supervisor says so, instead of Ray trying in silence.
    "max_constructor_retry_count": 3,
}
"""What Ray Serve is told beyond the number of replicas."""


def serve_server(description: LaunchDescription, host: LaunchHost) -> Command:
    """The program. It answers nobody itself: what speaks HTTP is an actor of Ray on the same host."""
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
    # In the engine's own words, so that they are checked as those of every other profile.
    return {**command, "engine_argv": engine_arguments(description)}


def engine_arguments(description: LaunchDescription) -> list[str]:
    """What a replica's engine is told, as its own command would be."""
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
    """The file that the program reads."""
    return json.dumps(serve_settings(description, host), indent=2) + "\n"


def serve_settings(description: LaunchDescription, host: LaunchHost) -> dict[str, Any]:
    """What the program deploys. No secret is in it: the key comes from the root-only file, by the environment."""
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
    """Every replica has its GPUs on one host, and all GPUs are used: so Ray has one way only to spread them."""
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
            "a replica has its GPUs on one host, and none is left over there",
            f"make tensor_parallel a divisor of {each}, or use profile vllm-ray for one server over all hosts",
        )
    elif description.replicas * parallel != hosts * each:
        yield Problem(
            "launch.replicas",
            f"{description.replicas} replicas of {parallel} GPUs on {hosts} x {each} GPUs",
            "replicas use all GPUs, so that where each of them runs follows from the plan",
            f"make it {hosts * each // parallel} replicas",
        )
