# SPDX-License-Identifier: Apache-2.0
"""Rules for a driver's set of packages: one release, one source, one kind of kernel module, all pinned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import reduce
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import (
    BUILD_TOOLS,
    PRECOMPILED,
    builds_module,
    precompiled,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import BY_HOST
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dpkg import upstream_version
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.facts import (
    Tables,
    load_tables,
    older,
    part,
    text,
)

ERRORS: dict[str, str] = {
    "stack.driver-policy": "Either the driver is installed, or the existing one is verified and held.",
    "stack.driver-packages": (
        "Every package of a driver is of one release. Names carry the branch up to 580, and from 590 on NVIDIA's own "
        "do not, so a name pins nothing."
    ),
    "stack.driver-unpinned": (
        "A driver is installed by exact versions. A package without one follows the newest version of the repository."
    ),
    "stack.dkms": (
        "NVIDIA's own packages build their modules with a newer dkms than the distribution has; the same repository "
        "has one, which apt installs only if the set lists it."
    ),
    "stack.precompiled": (
        "Ubuntu's linux-modules-nvidia packages are compiled and signed by Canonical, so that they load with Secure "
        "Boot. Each is for one kernel, works only with Ubuntu's own user space, and replaces DKMS."
    ),
    "stack.mixed-sources": (
        "NVIDIA's repository and the distribution's archive split the driver into different packages. A set of both "
        "does not install, or installs with two versions of a library."
    ),
}

POLICIES = ("verify-and-hold", "install")
_BRANCH = re.compile(r"-(?P<branch>\d{3,})(?=-|$)")
_RELEASE = re.compile(r"-(?P<release>\d{3,}(?:\.\d+){1,2})$")
_MODULES = (
    "nvidia-dkms",
    "nvidia-kernel-source",
    "nvidia-driver",
    "nvidia-open",
    "nvidia-kernel-open",
    "nvidia-kernel-dkms",
    "nvidia-headless",
    PRECOMPILED,
)
ARCHIVE = "ubuntu-archive"


def driver_set(driver: Mapping[str, Any]) -> dict[str, str | None]:
    """Return all packages of the driver with their versions, including fabric manager and others for NVSwitch."""
    listed = {**part(driver, "packages"), **part(driver, "nvswitch")}
    packages = {str(name): text(version) for name, version in listed.items()}
    manager = part(driver, "fabric_manager")
    return packages | ({str(manager["package"]): text(manager.get("revision"))} if manager.get("package") else {})


def guest_notes(stack: Mapping[str, Any], hardware: Mapping[str, Any], *, install: bool | None = None) -> list[str]:
    """Return a plan's notes about another driver in a guest; `install` as for check_driver_set.

    The host's fabric manager may only accept a guest's GPUs with its own driver version: a 595 driver in place of
    580.173.02 left two H100 of a rented guest at "In Progress", with CUDA error 802.
    """
    driver = part(stack, "driver")
    installs = str(driver.get("policy")) == POLICIES[1] if install is None else install
    if hardware.get("fabric_manager") != BY_HOST or not driver.get("packages") or not installs:
        return []
    version = text(driver.get("version")) or text(driver.get("branch"))
    note = (
        f"stack {stack.get('name')} installs driver {version}, and the fabric of {hardware.get('name')} is run by the "
        "owner of the host, whose fabric manager may accept no driver of another version: ask the owner first; "
        "to keep the existing driver, pin its version in a stack of your own, with driver.policy verify-and-hold"
    )
    return [note]


def kernel_limit(release: str | None, tables: Tables) -> str | None:
    """Return the oldest kernel on which a driver's modules are known not to build; None if they build on all."""
    if release is None:
        return None
    branch = release.partition(".")[0]
    limits = [
        str(rule["kernel"])
        for rule in tables.kernels
        if str(rule["branch"]) == branch and (rule["fixed"] is None or older(release, str(rule["fixed"])))
    ]
    return reduce(lambda oldest, one: one if older(one, oldest) else oldest, limits) if limits else None


def check_driver_set(
    stack: Mapping[str, Any],
    hardware: Mapping[str, Any],
    sources: Mapping[str, Mapping[str, Any]],
    errors: PlanErrors,
    *,
    install: bool | None = None,
    tables: Tables | None = None,
) -> None:
    """Add errors for a driver set that no host could have. `install` overrides the policy if the operator sets it."""
    name, driver, known = str(stack.get("name")), part(stack, "driver"), tables or load_tables()
    if not driver:
        return
    policy = str(driver.get("policy") or POLICIES[0])
    if policy not in POLICIES:
        errors.add(
            "stack.driver-policy",
            f"stack {name} has driver.policy {policy!r}",
            f"driver.policy is {' or '.join(POLICIES)}",
            "correct driver.policy in the stack's file",
        )
    packages = driver_set(driver)
    _check_release(name, driver, packages, sources, errors)
    _check_modules(name, driver, packages, hardware, known, errors)
    _check_precompiled(name, driver, packages, errors)
    if policy == POLICIES[1] if install is None else install:
        _check_dkms(name, stack, packages, known, errors)
    _check_sources(name, driver, packages, sources, errors)
    loose = [package for package, version in packages.items() if version is None]
    if loose and (policy == POLICIES[1] if install is None else install):
        errors.add(
            "stack.driver-unpinned",
            f"stack {name} gives no version for {', '.join(loose)}",
            "with the policy install every package of the driver has an exact version",
            f"give them in a stack of your own (`apt-cache policy {loose[0]}` shows the available ones), "
            "or leave the policy at verify-and-hold",
        )


def _check_release(
    name: str,
    driver: Mapping[str, Any],
    packages: Mapping[str, str | None],
    sources: Mapping[str, Mapping[str, Any]],
    errors: PlanErrors,
) -> None:
    release = text(driver.get("version"))
    branch = text(driver.get("branch")) or (release.partition(".")[0] if release else None)
    since = sources.get(str(driver.get("source")), {}).get("branchless_from")
    branchless = since is not None and branch is not None and branch.isdecimal() and int(branch) >= since
    for package, version in packages.items():
        if package in BUILD_TOOLS:
            continue
        inside, named = _RELEASE.search(package), _BRANCH.search(package)
        # A precompiled module has the version of the kernel.
        if release and version and upstream_version(version) != release and not package.startswith(PRECOMPILED):
            found, rule = f"{package} {version}", f"every package of the driver is of version {release}"
        elif release and inside and inside["release"] != release:
            found, rule = package, f"the name carries the driver's version, which is {release}"
        elif branch and named and named["branch"] != branch:
            found, rule = package, f"the name carries the driver's branch, which is {branch}"
        elif named and branchless:
            found = package
            rule = f"from branch {since} on the names of {driver.get('source')} carry no branch; only versions pin them"
        else:
            continue
        errors.add(
            "stack.driver-packages",
            f"stack {name} has driver {release or f'branch {branch}'} and the package {found}",
            rule,
            f"correct driver.packages (or driver.fabric_manager) of stack {name}",
        )


def _check_dkms(
    name: str, stack: Mapping[str, Any], packages: Mapping[str, str | None], known: Tables, errors: PlanErrors
) -> None:
    driver = part(stack, "driver")
    rule = known.dkms.get(str(driver.get("source")))
    release = text(driver.get("version"))
    builds = builds_module(package for package in packages if package not in BUILD_TOOLS)
    if rule is None or release is None or not builds or older(release, rule["from"]):
        return
    pinned = packages.get("dkms")
    if pinned:
        lacking = [f"dkms {pinned}"] if older(upstream_version(pinned), rule["minimum"]) else []
    else:
        releases = [(str(one["distribution"]), str(one["version"])) for one in stack.get("distributions") or []]
        have = {f"{one} {version}": known.distribution_dkms.get(one, {}).get(version) for one, version in releases}
        lacking = [
            f"no dkms for {system}, which has {version or 'an unknown one'}"
            for system, version in have.items()
            if version is None or older(version, rule["minimum"])
        ]
    if lacking:
        errors.add(
            "stack.dkms",
            f"stack {name} has driver {release} of {driver.get('source')} and {' and '.join(lacking)}",
            f"drivers of {driver.get('source')} from {rule['from']} on need dkms {rule['minimum']} or newer",
            f"add dkms to driver.packages of stack {name}, in the version that {driver.get('source')} has "
            "(`apt-cache madison dkms` shows it)",
        )


def _check_precompiled(
    name: str, driver: Mapping[str, Any], packages: Mapping[str, str | None], errors: PlanErrors
) -> None:
    modules = precompiled(packages)
    if not modules:
        return
    own = str(driver.get("source") or "")
    building = [package for package in packages if builds_module([package])]
    wrong = []
    if own not in ("", ARCHIVE):
        wrong.append(f"driver.source {own}")
    if building:
        wrong.append(" and ".join(building))
    if wrong:
        errors.add(
            "stack.precompiled",
            f"stack {name} has {', '.join(modules)} beside {' and '.join(wrong)}",
            "precompiled modules are Ubuntu's: with them the whole driver comes from its archive, and nothing is built",
            f"take every package of stack {name} from {ARCHIVE} (nvidia-headless-no-dkms-*, nvidia-utils-*, "
            "libnvidia-* of its versions) without nvidia-dkms and dkms, or leave the linux-modules-nvidia packages out",
        )


def _check_modules(
    name: str,
    driver: Mapping[str, Any],
    packages: Mapping[str, str | None],
    hardware: Mapping[str, Any],
    known: Tables,
    errors: PlanErrors,
) -> None:
    capability = text(hardware.get("compute_capability"))
    open_only = capability is not None and not older(capability, known.open_modules_from)
    modules = [package for package in packages if package.startswith(_MODULES)]
    closed = [package for package in modules if "open" not in package.split("-")]
    flavour = driver.get("flavour")
    if closed and (flavour == "open" or open_only):
        why = (
            f"{hardware.get('name')} (compute capability {capability}) works with the open kernel modules only"
            if open_only
            else "driver.flavour is open"
        )
        errors.add(
            "stack.kernel-modules",
            f"stack {name} has the package {closed[0]}, which belongs to the proprietary kernel modules",
            why,
            f"list its open form (such as nvidia-driver-580-open) in driver.packages of stack {name}",
        )
    if flavour == "proprietary" and len(closed) < len(modules):
        errors.add(
            "stack.kernel-modules",
            f"stack {name} has driver.flavour proprietary and open kernel modules in driver.packages",
            "the packages match driver.flavour",
            f"correct driver.flavour or driver.packages of stack {name}",
        )


def _check_sources(
    name: str,
    driver: Mapping[str, Any],
    packages: Mapping[str, str | None],
    sources: Mapping[str, Mapping[str, Any]],
    errors: PlanErrors,
) -> None:
    """Check that all packages come from one source, by the packaging revisions specific to each source."""
    own = str(driver.get("source") or "")
    packages = {one: version for one, version in packages.items() if not one.startswith(PRECOMPILED)}
    tellable = {source for source, entry in sources.items() if entry.get("revisions")}
    origins = {
        package: {source for source in tellable if _is_of(version, sources[source]["revisions"])}
        for package, version in packages.items()
        if version
    }
    allowed = {own} if own in tellable else set[str]().union(*origins.values())
    for package, origin in sorted(origins.items()):
        if not origin:
            continue  # no source in the catalog uses such a revision
        if own not in tellable:
            allowed &= origin
        if not allowed & origin:
            errors.add(
                "stack.mixed-sources",
                f"stack {name} has driver.source {own or 'none'} and {package} {packages[package]}, "
                f"which is from {' or '.join(sorted(origin))}",
                "every package of the driver comes from one source",
                f"take the whole set of stack {name} from {own or 'one source'}, with the versions it has there",
            )
            return


def _is_of(version: str, patterns: list[str]) -> bool:
    revision = version.rpartition("-")[2]
    return any(fnmatchcase(revision, str(pattern)) for pattern in patterns)
