# SPDX-License-Identifier: Apache-2.0
"""Choose the recipe that an intent has its image built from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import parse_lock
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import DIGEST_TO_SUPPLY
from ansible_collections.firstlight.cluster.plugins.module_utils.image.recipe import (
    ARCHITECTURES,
    Recipe,
    lock_problems,
    read_recipe,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import engine_of, part, text

ERRORS = {
    "image.build": "An image is either pinned or built, and only what has a recipe in the catalog can be built.",
    "image.recipe": "A recipe that does not match its lock, the stack or the machine builds an image that is refused.",
    "image.base": "A base given by its tag may be another one tomorrow, and with it everything that is built on it.",
}

NCCL_WHEELS = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")
"""The distributions that carry NCCL; a lock has one of them."""


def wants_build(intent: Mapping[str, Any], errors: PlanErrors | None = None) -> bool:
    """Whether the image is to be built; `-e NAME=true` arrives as text."""
    given = intent.get("firstlight_image_build")
    if isinstance(given, str) and given.lower() in ("true", "yes", "false", "no"):
        return given.lower() in ("true", "yes")
    if given is None or isinstance(given, bool):
        return bool(given)
    known = {"base"}
    if isinstance(given, Mapping) and set(given) <= known and isinstance(given.get("base", ""), str):
        return True
    if errors is not None:
        errors.add(
            "image.build",
            f"firstlight_image_build is {given!r}",
            "it is true, false, or a mapping with the key base, which is REPOSITORY@sha256:DIGEST",
            "write firstlight_image_build: true",
        )
    return False


def recipe_name(intent: Mapping[str, Any], stack: Mapping[str, Any]) -> str:
    """Return the recipe whose files are needed; empty if nothing is built."""
    return str(part(stack, "image").get("build") or "") if wants_build(intent) else ""


def chosen_recipe(
    intent: Mapping[str, Any],
    stack: Mapping[str, Any] | None,
    recipes: Mapping[str, Mapping[str, Any]],
    hardware: Mapping[str, Any] | None,
    files: Mapping[str, str],
    errors: PlanErrors,
    missing_inputs: PlanErrors,
) -> tuple[Recipe | None, str]:
    """Return the recipe of the image and a description of it; None if no image is built, or the build is refused."""
    if not wants_build(intent, errors) or stack is None:
        return None, ""
    if intent.get("firstlight_image") is not None:
        errors.add(
            "image.build",
            "firstlight_image and firstlight_image_build are both set",
            "an image is either pinned or built",
            "take one of the two out of the inventory",
        )
        return None, ""
    entry = _entry(stack, recipes, errors)
    if entry is None:
        return None, ""
    base = _base(intent, entry, errors, missing_inputs)
    lock = files.get(str(entry["lock"]), "")
    if not base or not lock:
        return None, ""  # already refused; a missing lock where it was read
    try:
        recipe = read_recipe({**entry, "base": base, "lock": lock})
    except ValueError as error:
        _refuse(entry, str(error), errors)
        return None, ""
    problems = lock_problems(recipe, _wanted(stack))
    own = text((hardware or {}).get("architecture"))
    if own and own != recipe.architecture:
        problems.append(f"it builds for {recipe.architecture}, {(hardware or {}).get('name')} is {own}")
    if text(stack.get("python")) not in (None, recipe.python):
        problems.append(f"it has Python {recipe.python}, stack {stack['name']} has {stack['python']}")
    for problem in problems:
        _refuse(entry, problem, errors)
    return (None, "") if problems else (recipe, _told(entry, recipe))


def _entry(
    stack: Mapping[str, Any], recipes: Mapping[str, Mapping[str, Any]], errors: PlanErrors
) -> Mapping[str, Any] | None:
    name = str(part(stack, "image").get("build") or "")
    if name in recipes:
        return recipes[name]
    errors.add(
        "image.build",
        f"firstlight_image_build is set, and stack {stack['name']} has "
        + (f"image.build {name}" if name else "no image.build"),
        f"image.build of a stack names a recipe of the catalog; it has {', '.join(sorted(recipes)) or 'none'}",
        "pin the image with firstlight_image, choose a stack that has a recipe, or write one (catalog/README.md)",
    )
    return None


def _base(intent: Mapping[str, Any], entry: Mapping[str, Any], errors: PlanErrors, missing_inputs: PlanErrors) -> str:
    """Return the base by its digest: the operator's own, or the recipe's."""
    given = intent.get("firstlight_image_build")
    own = given.get("base") if isinstance(given, Mapping) else None
    known = entry["base"]
    if own is None and known["digest"] is None:
        platform = f"linux/{ARCHITECTURES.get(str(entry['architecture']), entry['architecture'])}"
        missing_inputs.add(
            "image.base",
            f"recipe {entry['name']} has the base {known['repository']}:{known['tag']} with no digest",
            "a base is pinned as REPOSITORY@sha256:DIGEST, by the digest of its platform",
            f"`docker buildx imagetools inspect {known['repository']}:{known['tag']}` lists one for {platform}: set "
            f"firstlight_image_build to {{base: {known['repository']}@sha256:DIGEST}}",
        )
    reference = str(own or f"{known['repository']}@{known['digest'] or DIGEST_TO_SUPPLY}")
    if own is not None and known["digest"] is not None and reference.partition("@")[2] != known["digest"]:
        errors.add(
            "image.base",
            f"firstlight_image_build.base is {own!r}",
            f"recipe {entry['name']} is made for the base {known['repository']}:{known['tag']}, {known['digest']}",
            f"give a mirror of it, as REPOSITORY@{known['digest']}, or write a recipe of your own (catalog/README.md)",
        )
        return ""
    return reference


def _wanted(stack: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions the stack pins, by distribution."""
    engine, version = engine_of(stack)
    wanted = {
        engine: version,
        **dict.fromkeys(NCCL_WHEELS, text(stack.get("nccl"))),
        "ray": text(part(stack, "ray").get("version")) or text(part(stack, "requires").get("ray")),
    }
    return {name: version for name, version in wanted.items() if version}


def _refuse(entry: Mapping[str, Any], problem: str, errors: PlanErrors) -> None:
    errors.add(
        "image.recipe",
        f"recipe {entry['name']}: {problem}",
        "a recipe, its lock, the stack and the machine are for the same architecture, Python and versions",
        f"correct recipes/{entry['name']}.yml or its lock, or choose the stack they were made for",
    )


def _told(entry: Mapping[str, Any], recipe: Recipe) -> str:
    """Return the plan's description of a built image; the caller puts the build host before it."""
    lock = parse_lock(recipe.lock)
    size = f", {lock.wheels_bytes / 1e9:.1f} GB" if lock.wheels_bytes else ""
    day = dt.datetime.fromtimestamp(recipe.epoch, tz=dt.UTC).date().isoformat()
    packages = f", packages of {day}" if recipe.packages else ""
    note = f" {entry['note']}" if entry.get("note") else ""
    return (
        f"from recipe {recipe.name}: {recipe.base} ({entry['base']['tag']}), {len(lock.packages)} wheels by hash{size}"
        f"{packages}.{note}"
    )
