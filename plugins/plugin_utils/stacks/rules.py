# SPDX-License-Identifier: Apache-2.0
"""Rules between the parts of a stack, and between a stack and the hardware it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import BY_HOST
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.translations import Version, version_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import (
    Tables,
    driver_version,
    engine_of,
    load_tables,
    older,
    part,
    text,
)

ERRORS: dict[str, str] = {
    "stack.fabric-manager": (
        "GPUs behind an NVSwitch cannot be used before the fabric manager has set up the fabric (CUDA error 802), "
        "and it refuses to start with a driver of any other version."
    ),
    "stack.cuda-driver": (
        "The driver must know the CUDA release the engine was built with. An older one fails when the engine "
        "starts, minutes into the deployment."
    ),
    "stack.gpu": (
        "Code for a GPU can only be in an engine whose CUDA release knows that GPU. Without it the first kernel "
        "fails with 'no kernel image is available'."
    ),
    "stack.kernel-modules": (
        "Blackwell GPUs have no proprietary kernel module: the driver would load and find no GPU."
    ),
    "stack.fp8": "FP8 weights need a GPU that computes FP8 (compute capability 8.9 or newer).",
    "stack.nccl": (
        "CUDA graphs across hosts hang or crash with an older NCCL; the engine's own kernels need the same."
    ),
    "stack.ray-missing": (
        "The official vLLM image has had no Ray since 0.18.0, so a Ray cluster needs an image with a layer that "
        "adds it."
    ),
    "stack.ray-old": (
        "Before 2.52 Ray has no token authentication, and before 2.54 anyone who reaches its dashboard can stop "
        "jobs (CVE-2026-27482). A Ray port without a token runs any code it is sent."
    ),
    "stack.ray-lock": "A layer of whatever the index has today is another image tomorrow, and may come from anyone.",
    "stack.engine": "A profile launches one engine, and a stack pins one: both must be the same.",
    "stack.runtime": "Not every profile can run from a virtual environment.",
    "stack.dcgm": (
        "DCGM's packages are of one version. Without the plugins of the driver's CUDA its diagnostic skips tests "
        "and looks as if they had passed."
    ),
    "stack.inconsistent": (
        "A stack gives some versions twice: what it pins and what its image must contain. If they differ, one of them "
        "is wrong and no host could pass."
    ),
}

_DCGM = "datacenter-gpu-manager"


def check_stack(
    stack: Mapping[str, Any],
    hardware: Mapping[str, Any],
    *,
    hosts: int,
    profile: str,
    errors: PlanErrors,
    fp8: bool = False,
    cuda_graphs: bool = True,
    tables: Tables | None = None,
) -> None:
    """Add errors for a stack whose parts do not fit each other, the hardware or the profile. Unknown versions pass.

    `fp8`: whether the weights are FP8. `cuda_graphs`: false if the operator disabled them.
    """
    known = tables or load_tables()
    name = str(stack.get("name"))
    _check_driver(name, stack, hardware, known, errors)
    _check_fabric_manager(name, stack, hardware, errors)
    if fp8 and hardware.get("fp8") is False:
        errors.add(
            "stack.fp8",
            f"{hardware.get('name')} has compute capability {hardware.get('compute_capability')}",
            "FP8 weights need a GPU that computes FP8",
            "choose weights in another format (AWQ, or unquantised), or hardware with FP8",
        )
    minimum = known.nccl_across_hosts.get(engine_of(stack)[0])
    if hosts > 1 and cuda_graphs and older(text(stack.get("nccl")), minimum):
        errors.add(
            "stack.nccl",
            f"stack {name} has NCCL {stack['nccl']}",
            f"{hosts} hosts with CUDA graphs need NCCL {minimum} or newer",
            f"choose a stack with NCCL {minimum} or newer, or add --enforce-eager to firstlight_serving.flags",
        )
    _check_engine(name, stack, profile, errors)
    if profile in PROFILES and PROFILES[profile].on_ray:
        _check_ray(name, profile, stack, known, errors)
    _check_dcgm(name, stack, errors)
    _check_consistency(name, stack, errors)


def _check_driver(
    name: str, stack: Mapping[str, Any], hardware: Mapping[str, Any], known: Tables, errors: PlanErrors
) -> None:
    driver, cuda = part(stack, "driver"), part(stack, "cuda")
    version = driver_version(stack)
    capability = text(hardware.get("compute_capability"))
    for field, where in (("in_image", "its image"), ("in_wheels", "its wheels"), ("toolkit", "its toolkit")):
        release = text(cuda.get(field))
        numbers = version_of(release)
        if release is None or numbers is None:
            continue
        branch = known.minimum_branch.get(str(numbers[0]))
        if branch is not None and older(version, str(branch)):
            errors.add(
                "stack.cuda-driver",
                f"stack {name} has driver {version} and CUDA {release} in {where}",
                f"CUDA {numbers[0]} needs driver {branch} or newer{_made_with(numbers, known)}",
                f"pin a driver of branch {branch} or newer, or an engine built with an older CUDA",
            )
        first = known.compute_capability.get(capability or "")
        if field != "toolkit" and older(release, first):
            errors.add(
                "stack.gpu",
                f"stack {name} has CUDA {release} in {where}, for {hardware.get('name')}",
                f"compute capability {capability} needs CUDA {first} or newer",
                f"choose a stack whose engine is built with CUDA {first} or newer",
            )
    if driver.get("flavour") == "proprietary" and not older(capability, known.open_modules_from) and capability:
        errors.add(
            "stack.kernel-modules",
            f"stack {name} has the proprietary kernel modules",
            f"{hardware.get('name')} (compute capability {capability}) works with the open kernel modules only",
            "choose a stack with driver.flavour open",
        )


def _made_with(numbers: Version, known: Tables) -> str:
    driver = known.made_with.get(".".join(map(str, numbers[:2])))
    return f" ({'.'.join(map(str, numbers[:2]))} came with {driver})" if driver else ""


def _check_fabric_manager(name: str, stack: Mapping[str, Any], hardware: Mapping[str, Any], errors: PlanErrors) -> None:
    driver = part(stack, "driver")
    manager = part(driver, "fabric_manager")
    version = text(driver.get("version"))
    # If the host's owner runs the fabric, the guest needs no fabric manager.
    own = hardware.get("nvswitch") and hardware.get("fabric_manager") != BY_HOST
    if own and driver and not manager:
        errors.add(
            "stack.fabric-manager",
            f"stack {name} pins driver {driver_version(stack)} and no fabric manager",
            f"{hardware.get('name')} has NVSwitch, which needs the fabric manager of exactly the driver's version",
            f"add driver.fabric_manager with version {version or 'of the driver'} to the stack",
        )
    # Check the pair on any hardware: the stack may be used with an NVSwitch later.
    if version and manager.get("version") and text(manager["version"]) != version:
        errors.add(
            "stack.fabric-manager",
            f"stack {name} pins driver {version} and fabric manager {manager.get('version')}",
            "the fabric manager starts only with a driver of exactly its own version",
            f"set driver.fabric_manager.version to {version}",
        )


def _check_engine(name: str, stack: Mapping[str, Any], profile: str, errors: PlanErrors) -> None:
    wanted = PROFILES.get(profile)
    if wanted is None:
        return  # an unknown profile is rejected where the intent is read
    engine, version = engine_of(stack)
    if engine != wanted.engine:
        fitting = ", ".join(one for one, about in PROFILES.items() if about.engine == engine) or "none"
        errors.add(
            "stack.engine",
            f"profile {profile} launches {wanted.engine}, stack {name} has {engine} {version}",
            "the profile's engine is the stack's engine",
            f"set firstlight_serving.profile to one for {engine} ({fitting}), or choose a stack with {wanted.engine}",
        )
    runtime = str(stack.get("runtime") or "docker")
    if engine == wanted.engine and runtime not in wanted.runtimes:
        errors.add(
            "stack.runtime",
            f"stack {name} has its engine in a {runtime}",
            f"profile {profile} runs in {' or '.join(wanted.runtimes)}",
            "use profile vllm-single on one host, or choose a stack with an image",
        )


def _check_ray(name: str, profile: str, stack: Mapping[str, Any], known: Tables, errors: PlanErrors) -> None:
    ray = part(stack, "ray")
    version = text(ray.get("version")) or text(part(stack, "requires").get("ray"))
    if version is None or (ray and not ray.get("in_image") and not ray.get("added")):
        errors.add(
            "stack.ray-missing",
            f"stack {name} has {f'Ray {version}, but not in its image' if version else 'no Ray'}",
            f"profile {profile} runs Ray from the engine's image",
            "choose a stack whose image has Ray (see spark-vllm-0.32 for how to build it), or profile vllm-multinode, "
            "which needs none",
        )
    elif older(version, known.ray):
        reason = (
            "without token authentication" if older(version, known.ray_token) else "with an unprotected dashboard call"
        )
        errors.add(
            "stack.ray-old",
            f"stack {name} has Ray {version}, {reason}",
            f"Ray is {known.ray} or newer",
            f"build the image with Ray {known.ray} or newer, or use profile vllm-multinode, which needs none",
        )


def _check_dcgm(name: str, stack: Mapping[str, Any], errors: PlanErrors) -> None:
    listed = {str(one): text(pin) for one, pin in part(stack, "packages").items() if str(one).startswith(_DCGM)}
    plugins = [one for one in listed if one.startswith((f"{_DCGM}-4-cuda", f"{_DCGM}-4-proprietary-cuda"))]
    if len(set(listed.values())) > 1:
        told, rule = ", ".join(f"{one} {pin}" for one, pin in sorted(listed.items())), "all of them have one version"
    elif f"{_DCGM}-4-core" in listed and not plugins:
        told, rule = f"{_DCGM}-4-core without plugins", "its diagnostic needs the plugins of the driver's CUDA"
    else:
        return
    errors.add(
        "stack.dcgm",
        f"stack {name} has {told}",
        rule,
        f"list {_DCGM}-4-core and {_DCGM}-4-cuda13 (or -cuda12) in packages of the stack's file, in one version",
    )


def _check_consistency(name: str, stack: Mapping[str, Any], errors: PlanErrors) -> None:
    engine, version = engine_of(stack)
    driver, requires = part(stack, "driver"), part(stack, "requires")
    branch, exact = text(driver.get("branch")), text(driver.get("version"))
    pairs = [
        (f"requires.{engine}", text(requires.get(engine)), "engine.version", version),
        ("requires.ray", text(requires.get("ray")), "ray.version", text(part(stack, "ray").get("version"))),
        ("requires.python", text(requires.get("python")), "python", text(stack.get("python"))),
        ("driver.branch", branch, "the branch of driver.version", exact.partition(".")[0] if exact else None),
    ]
    strange = sorted(set(part(stack, "package_sources")) - set(part(stack, "packages")))
    if strange:
        errors.add(
            "stack.inconsistent",
            f"stack {name} has a source for {', '.join(strange)}, which is not among its packages",
            "package_sources names sources only for packages of the stack",
            "correct the names in package_sources of the stack's file",
        )
    for left, first, right, second in pairs:
        if first is not None and second is not None and first != second:
            errors.add(
                "stack.inconsistent",
                f"stack {name} has {left} {first} and {right} {second}",
                "both have the same value",
                f"correct {left} or {right} in the stack's file",
            )
