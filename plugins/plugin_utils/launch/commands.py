# SPDX-License-Identifier: Apache-2.0
"""One launch description in, the exact processes of each host out: every engine, every profile.

Pure: the plan shows these commands, and the roles write them into units. docs/launch.md is for operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import ray_serve, sglang, tensorrt, vllm
from .checks import problems
from .description import PROFILES, SETTINGS, Command, LaunchDescription, LaunchHost, Profile, ranked_hosts
from .parts import settings_arguments, settings_document
from .values import Problem, read_description

__all__ = [
    "PROFILES",
    "SETTINGS",
    "Command",
    "LaunchDescription",
    "LaunchHost",
    "Problem",
    "Profile",
    "commands",
    "problems",
    "ranked_hosts",
    "read_description",
    "settings_arguments",
    "settings_document",
]

_RENDER: dict[str, Callable[[LaunchDescription, LaunchHost], list[Command]]] = {
    "vllm-ray": vllm.ray,
    "vllm-multinode": vllm.multinode,
    "vllm-single": vllm.single,
    "vllm-replicas": vllm.replicas,
    "ray-serve": ray_serve.ray_serve,
    "sglang": sglang.server,
    "tensorrt-llm": tensorrt.commands,
}


def commands(description: LaunchDescription | Mapping[str, Any], host: str) -> list[Command]:
    """The processes of one host, in the order in which they start.

    Raises ValueError with everything that is wrong with the description, one sentence a line.
    """
    launch = description if isinstance(description, LaunchDescription) else read_description(description)
    found = problems(launch)
    if found:
        raise ValueError("\n".join(problem.sentence for problem in found))
    return _RENDER[launch.profile](launch, launch.host(host))
