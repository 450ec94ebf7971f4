# SPDX-License-Identifier: Apache-2.0
"""The variables for the image: which one, what it must contain, and how it reaches each host."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.image.contents import RAY_SERVE
from ansible_collections.firstlight.cluster.plugins.module_utils.image.derive import (
    ALONE,
    METRICS,
    SERVE,
    layer_word,
    read_ray_lock,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import local_name
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES, Profile
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.image.intent import archive_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.weights.variables import share_variables
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of, part, text


def image_variables(resolved: ResolvedIntent, host: HostIntent, addresses: Mapping[str, str]) -> dict[str, Any]:
    """Return the variables of role inference_image; `addresses` are the hosts' own on the fabric."""
    archive = archive_of(resolved.intent)
    ray, lock = added_ray(resolved)
    return {
        "inference_image_reference": resolved.image,
        "inference_image_recipe": dataclasses.asdict(resolved.recipe) if resolved.recipe else {},
        "inference_image_ray": ray,
        "inference_image_ray_lock": lock,
        "inference_image_requires": required_versions(resolved),
        "inference_image_size_bytes": part(resolved.stack, "image").get("size_bytes", 0),
        "inference_image_archive": archive["path"],
        "inference_image_archive_location": archive["on"],
        "inference_image_is_head": host.is_head,
        "inference_image_head_host": resolved.head.name,
        **share_variables("inference_image", resolved, addresses),
    }


def image_name(variables: Mapping[str, Any]) -> str:
    """Return the image name used on every host; empty without one. An invalid reference is refused where it is used."""
    reference = str(variables["inference_image_reference"] or "")
    try:
        return local_name(reference, str(variables["inference_image_ray"] or "")) if reference else ""
    except ValueError:
        return reference


def may_use_ray(profile: Profile) -> bool:
    """Whether a profile runs on Ray, or can be exchanged for one that does; its image has Ray in both cases.

    The image follows from the stack, so switching from a profile that hangs to the other needs no new image.
    """
    return profile.on_ray or (profile.engine == "vllm" and profile.several_hosts)


def added_ray(resolved: ResolvedIntent) -> tuple[str, str]:
    """Return the Ray version added to the image, and its lock; both empty if the image has its own or can use none."""
    ray, kind = part(resolved.stack, "ray"), layer_kind(resolved)
    version = text(ray.get("version"))
    if not kind or not version:
        return "", ""
    lock = resolved.files.get(str(part(ray, "locks").get(kind) or ""), "")
    return layer_word(version, kind, lock), lock


def layer_kind(resolved: ResolvedIntent) -> str:
    """Return the kind of the Ray layer; empty without one."""
    ray, profile = part(resolved.stack, "ray"), PROFILES[resolved.serving.profile]
    if not may_use_ray(profile) or not ray.get("added") or ray.get("in_image"):
        return ""
    if profile.spread:
        return SERVE
    monitored = resolved.monitoring is not None and resolved.monitoring.enabled
    # Nobody reads Ray's metrics in a cluster without monitoring: its agent is left out, and so are its ports.
    return METRICS if monitored else ALONE


def check_ray_layer(resolved: ResolvedIntent, errors: PlanErrors) -> None:
    """Refuse a Ray layer whose wheels are not pinned, or pinned for another Ray or machine."""
    ray, lock = added_ray(resolved)
    if not ray:
        return
    name = text(part(part(resolved.stack, "ray"), "locks").get(layer_kind(resolved)))
    problem = f"no ray.locks.{layer_kind(resolved)}" if not name else ""
    if lock:
        problem = _lock_problem(resolved, ray, lock)
    if problem:
        errors.add(
            "stack.ray-lock",
            f"stack {resolved.stack['name']} adds Ray {ray.partition('_')[0]} to its image, but has {problem}",
            "what is installed into an image as root is pinned, every wheel by its hash",
            "make the lock with scripts/engine_lock.sh --beside (docs/image.md), and name it in ray.locks of the stack",
        )


def _lock_problem(resolved: ResolvedIntent, ray: str, text_of_lock: str) -> str:
    try:
        lock = read_ray_lock(ray, text_of_lock)
    except ValueError as error:
        return f"a lock that cannot be used: {error}"
    pairs = [
        ("architecture", lock.architecture, text(resolved.hardware.get("architecture"))),
        ("Python", lock.python, text(resolved.stack.get("python"))),
    ]
    wrong = [
        f"a lock for {what} {have}, where {want} is used"
        for what, have, want in pairs
        if have and want not in (None, have)
    ]
    return wrong[0] if wrong else ""


def required_versions(resolved: ResolvedIntent) -> dict[str, str]:
    """Return the versions of engine, Ray where it is used or added, NCCL, CUDA and Python that the stack specifies."""
    stack = resolved.stack
    engine, version = engine_of(stack)
    wanted = {
        engine: version,
        "nccl": text(stack.get("nccl")),
        "cuda": text(part(stack, "cuda").get("in_image")),
        "python": text(stack.get("python")) or text(part(stack, "requires").get("python")),
    }
    if PROFILES[resolved.serving.profile].on_ray or layer_kind(resolved):
        wanted["ray"] = text(part(stack, "requires").get("ray")) or text(part(stack, "ray").get("version"))
        if PROFILES[resolved.serving.profile].spread:
            wanted[RAY_SERVE] = wanted["ray"]
    return {str(name): str(value) for name, value in wanted.items() if name and value}
