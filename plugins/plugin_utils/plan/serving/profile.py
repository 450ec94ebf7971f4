# SPDX-License-Identifier: Apache-2.0
"""Choose the launch profile: what an intent asks for, or the default for its stack and number of hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of, part

ERRORS = {
    "serving.profile": "A profile is one way to launch an engine; there are no others than those listed.",
}


def read_profile(
    serving: Mapping[str, Any], stack: Mapping[str, Any] | None, size: int, errors: PlanErrors
) -> tuple[str, str]:
    """Read profile and runtime, with defaults for this stack and number of hosts."""
    usual = _usual_profile(stack, size)
    profile = serving.get("profile") or usual
    if not isinstance(profile, str) or profile not in PROFILES:
        errors.add(
            "serving.profile",
            f"firstlight_serving.profile is {profile!r}",
            f"the profiles are {', '.join(PROFILES)}",
            suggest(str(profile), PROFILES),
        )
        profile = usual
    if not (PROFILES[profile].one_host if size == 1 else PROFILES[profile].several_hosts):
        errors.add(
            "serving.profile",
            f"firstlight_serving.profile is {profile} with {size} host{'s' if size > 1 else ''}",
            f"{_words(several_hosts=False)} are for one host, {_words(one_host=False)} are for several",
            f"set firstlight_serving.profile to {usual}, or leave it out",
        )
    runtime = serving.get("runtime") or (stack or {}).get("runtime") or "docker"
    if runtime not in ("docker", "venv") or runtime not in PROFILES[profile].runtimes:
        errors.add(
            "serving.profile",
            f"firstlight_serving.runtime is {runtime!r} with profile {profile}",
            "the engine runs in docker; on one host vLLM may also run in a venv",
            "set firstlight_serving.runtime to docker, or leave it out",
        )
        runtime = "docker"
    return str(profile), str(runtime)


def _words(**limits: bool) -> str:
    """Return the profiles with these limits, as a phrase for a sentence."""
    found = [name for name, one in PROFILES.items() if all(getattr(one, key) == is_ for key, is_ in limits.items())]
    return " and ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else "".join(found)


def _usual_profile(stack: Mapping[str, Any] | None, size: int) -> str:
    """Return the default profile of this stack's engine for this number of hosts."""
    if stack is None:
        return "vllm-ray" if size > 1 else "vllm-single"
    engine, _ = engine_of(stack)
    if engine in PROFILES:
        return engine
    if size == 1:
        return "vllm-single"
    ray = part(stack, "ray")
    has_ray = ray.get("in_image") or ray.get("added") if ray else part(stack, "requires").get("ray")
    return "vllm-ray" if has_ray else "vllm-multinode"


def check_replicas(replicas: int, profile: str, errors: PlanErrors) -> int:
    """Return the number of servers behind one address; more than one only in a profile that supports it."""
    if PROFILES[profile].several_servers or replicas == 1:
        return replicas
    errors.add(
        "serving.profile",
        f"firstlight_serving.replicas is {replicas} with profile {profile}",
        "several servers behind one address are vllm-replicas on one host, and ray-serve on several",
        "set firstlight_serving.profile to vllm-replicas or ray-serve, or leave replicas out",
    )
    return 1


def usual_replicas(profile: str, size: int) -> int:
    """Return the default number of servers of a profile: one per host with ray-serve."""
    known = PROFILES[profile]
    return size if known.spread else 2 if known.replicated else 1
