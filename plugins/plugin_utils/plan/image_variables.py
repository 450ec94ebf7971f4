# SPDX-License-Identifier: Apache-2.0
"""What the plan sets for the image: which one, what must be in it, and how it comes to each host."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.image import local_name
from ansible_collections.firstlight.cluster.plugins.module_utils.core.image_contents import RAY_SERVE
from ansible_collections.firstlight.cluster.plugins.module_utils.core.image_derive import METRICS_MARK, with_serve
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_description import PROFILES, Profile
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.choices import Settled
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.image import archive_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of, part, text


def image_variables(choices: Settled, host: HostIntent, head_address: str) -> dict[str, Any]:
    """The variables of the role that brings the image; `head_address` is the head's on the fabric."""
    archive = archive_of(choices.intent)
    return {
        "inference_image_reference": choices.image,
        "inference_image_recipe": dataclasses.asdict(choices.recipe) if choices.recipe else {},
        "inference_image_ray": added_ray(choices),
        "inference_image_requires": required_versions(choices),
        "inference_image_size_bytes": part(choices.stack, "image").get("size_bytes", 0),
        "inference_image_archive": archive["path"],
        "inference_image_archive_on": archive["on"],
        "inference_image_is_head": host.is_head,
        "inference_image_head_host": choices.head.name,
        # One host has nobody to give it to, and without a fabric nobody is given it.
        "inference_image_share_address": head_address if len(choices.hosts) > 1 and choices.fabric.rails else "",
    }


def image_name(variables: Mapping[str, Any]) -> str:
    """What every host calls the image; empty without one. What is no pinned reference is refused where it is used."""
    reference = str(variables["inference_image_reference"] or "")
    try:
        return local_name(reference, str(variables["inference_image_ray"] or "")) if reference else ""
    except ValueError:
        return reference


def may_use_ray(profile: Profile) -> bool:
    """Whether this profile runs on Ray, or moves to one that does by that one variable: then its image has Ray, too.

    The image follows from the stack: a profile that hangs is left for the other one with what every host has already.
    """
    return profile.on_ray or (profile.engine == "vllm" and profile.several_hosts)


def added_ray(choices: Settled) -> str:
    """The Ray that is added to the image; empty where it has its own, or can use none."""
    ray = part(choices.stack, "ray")
    adds = may_use_ray(PROFILES[choices.serving.profile]) and ray.get("added") and not ray.get("in_image")
    version = text(ray.get("version"))
    if not adds or not version:
        return ""
    pins = {str(name): str(pin) for name, pin in part(ray, "serve").items()}
    if PROFILES[choices.serving.profile].spread:
        return with_serve(version, pins)
    monitored = choices.monitoring is not None and choices.monitoring.enabled
    # Nobody reads the metrics of a Ray in a cluster without monitoring: its agent stays out, and so do its ports.
    return f"{version}{METRICS_MARK}" if monitored else version


def required_versions(choices: Settled) -> dict[str, str]:
    """Engine, Ray where it is used or added, NCCL, CUDA and Python, as far as the stack says them."""
    stack = choices.stack
    engine, version = engine_of(stack)
    wanted = {
        engine: version,
        "nccl": text(stack.get("nccl")),
        "cuda": text(part(stack, "cuda").get("in_image")),
        "python": text(stack.get("python")) or text(part(stack, "requires").get("python")),
    }
    if PROFILES[choices.serving.profile].on_ray or added_ray(choices):
        wanted["ray"] = text(part(stack, "requires").get("ray")) or text(part(stack, "ray").get("version"))
        if PROFILES[choices.serving.profile].spread:
            wanted[RAY_SERVE] = wanted["ray"]
    return {str(name): str(value) for name, value in wanted.items() if name and value}
